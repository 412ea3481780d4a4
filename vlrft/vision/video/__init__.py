"""Videos: which of their frames a model sees, at which size, and how they are decoded."""
