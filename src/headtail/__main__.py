"""`python -m headtail` is the `headtail` command."""

import sys

from headtail.cli import main

if __name__ == "__main__":
    sys.exit(main())
