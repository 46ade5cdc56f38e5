"""The control plane: durable, decides; every step is one transaction."""
