"""Operators and host syncs of a sampled token and of an update, beside generate() and another checkout."""
