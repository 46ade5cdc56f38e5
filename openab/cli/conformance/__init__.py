"""`openab conformance`: drives a bot from outside through every rule of receiving hand-offs."""
