"""Speaks the Agent Client Protocol with an agent over its pipes."""
