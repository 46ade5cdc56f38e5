"""Text rules that both planes use: pure, from string to string."""
