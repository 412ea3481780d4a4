"""Red-teaming of a reward: completions that should earn nothing, and what they earn."""
