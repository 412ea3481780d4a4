"""The Python API: the functions `vlrft.train`, `vlrft.evaluate`, `vlrft.score`, `vlrft.load_policy` and `vlrft.generate`.

The commands call the same functions. Errors are VlrftError; no function ends the process, and signal handlers are restored.
"""
