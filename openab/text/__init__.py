"""Text rules that both planes use; pure."""
