"""The read-only window: health, metrics and status pages."""
