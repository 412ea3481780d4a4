"""The work of one training step in exact counts, for vlrft and for TRL."""
