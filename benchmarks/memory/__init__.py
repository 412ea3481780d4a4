"""Planned memory against measured memory, and memory over a thousand steps."""
