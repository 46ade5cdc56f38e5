"""Who talks to whom: conversations, sessions and bindings."""
