"""Verifiable rewards: one file, one function of the file's name, `(completion, sample) ->
Score`."""
