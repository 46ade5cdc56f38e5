"""What the broker tells about itself: logs and metrics."""
