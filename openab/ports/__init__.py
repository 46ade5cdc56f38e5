"""What adapters promise: one small protocol a file."""
