"""Owns agent processes and their journals; the agent port's implementation."""
