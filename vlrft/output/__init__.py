"""What may leave vlrft as text: no secrets, and no control sequences to a terminal."""
