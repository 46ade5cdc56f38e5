"""The configuration file: read, checked as a whole, and turned into one immutable value."""
