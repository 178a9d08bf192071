"""The command line as ``python -m distforest``."""

from distforest.cli import main

if __name__ == "__main__":
    main()
