"""A loopback Discord and a scripted ACP agent: for tests, the demo, and trying a configuration."""
