"""openab: the broker that joins chat threads to coding agents."""
