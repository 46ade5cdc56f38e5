"""Measures openab against the numbers it promises; `python -m benchmarks` prints one table."""
