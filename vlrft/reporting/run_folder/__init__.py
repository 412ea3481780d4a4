"""The folder of a run: the names that runs write, its mark, and the removal of a run. No torch."""
