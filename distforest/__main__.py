"""The command line as ``python -m distforest``."""

from distforest.command_line.cli import main

if __name__ == "__main__":
    main()
