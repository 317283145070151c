"""`python -m assocmem` is the `assocmem` command."""

from assocmem.cli import main

if __name__ == "__main__":
    main()
