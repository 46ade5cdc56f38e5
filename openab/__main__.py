"""`python -m openab` is the same as the `openab` command."""

from openab.cli.main import main

main()
