"""Which prompts come next and which groups are trained on. Decisions rest on counts, state has `state_dict`."""
