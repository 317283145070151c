"""`python -m assocmem` is the `assocmem` command.

The command line is loaded when it is run: a process started beside it imports this module again, and has no use for it.
"""


def main() -> None:
    """Run the command line and leave with its exit status."""
    from assocmem.cli import main as command_line

    command_line()


if __name__ == "__main__":
    main()
