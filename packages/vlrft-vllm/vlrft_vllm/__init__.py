"""The part of vlrft that runs inside vLLM. It imports nothing of vlrft, which lives in another environment."""
