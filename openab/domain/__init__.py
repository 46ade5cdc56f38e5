"""Pure rules: no I/O, no clock, no logging, no third party."""
