"""Calls with a hard time limit, in worker processes that can be killed."""
