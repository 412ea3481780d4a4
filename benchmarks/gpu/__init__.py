"""Is vlrft right and fast on a GPU? Two programs of ten minutes: `correctness` and `speed`."""
