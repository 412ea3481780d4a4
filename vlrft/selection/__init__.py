"""Selection of prompts to draw, and of groups and rollouts to train on. No decision depends on timing; every state has a
`state_dict`."""
