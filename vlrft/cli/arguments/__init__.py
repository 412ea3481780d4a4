"""The commands of `vlrft` and their arguments. `cli.main` parses them, the modules of `cli.commands` run them."""

from __future__ import annotations

from vlrft.cli.arguments.authoring import add_authoring
from vlrft.cli.arguments.evaluation import add_evaluation
from vlrft.cli.arguments.inspection import add_inspection
from vlrft.cli.arguments.sharing import add_sharing
from vlrft.cli.arguments.training import add_training

COMMANDS = (
    add_training,
    add_evaluation,
    add_inspection,
    add_authoring,
    add_sharing,
)  # in the order of --help
