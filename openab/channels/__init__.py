"""Where people are: one adapter per chat network."""
