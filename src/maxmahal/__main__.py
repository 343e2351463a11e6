"""``python -m maxmahal``."""

from maxmahal.cli import main

if __name__ == "__main__":
    main()
