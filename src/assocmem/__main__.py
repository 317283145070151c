"""`python -m assocmem` is the `assocmem` command."""

from assocmem.cli import main

main()
