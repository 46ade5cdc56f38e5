"""Where the work is done: adapters for coding agents."""
