"""Doubles that speak the real wire formats: a loopback Discord and a scripted agent."""
