"""Finds out what is wrong, and says what to do about it."""
