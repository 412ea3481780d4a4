"""The Python API: the functions `vlrft.train`, `vlrft.evaluate`, `vlrft.score`, `vlrft.load_policy` and `vlrft.generate`.

The commands call the same functions. Errors are VlrftError; nothing ends the process or leaves a signal handler behind.
"""
