"""The loopback Discord: REST and gateway over real sockets, faults by script."""
