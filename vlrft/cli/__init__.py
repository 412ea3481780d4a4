"""The `vlrft` command: arguments, one module per command, the memory planner, the templates of `vlrft new`."""
