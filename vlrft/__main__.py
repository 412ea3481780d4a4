"""`python -m vlrft`: the same as the `vlrft` command."""

import sys

from vlrft.cli.main import main

sys.exit(main())
