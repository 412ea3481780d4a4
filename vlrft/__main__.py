"""`python -m vlrft`: the same as the `vlrft` command."""

import sys

from vlrft.cli import main

sys.exit(main())
