"""Calls with a time limit that holds, in worker processes that can be killed."""
