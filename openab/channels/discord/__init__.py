"""The Discord adapter: the channel port over discord.py."""
