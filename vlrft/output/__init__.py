"""Text on its way out of vlrft: without secrets, and without control sequences for a terminal."""
