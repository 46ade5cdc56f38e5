"""The configuration file: its model, and every mistake in it at once."""
