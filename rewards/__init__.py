"""Verifiable rewards: a file for each, with a function of the file's name, `(completion, sample) -> Score`."""
