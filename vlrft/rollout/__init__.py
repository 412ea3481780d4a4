"""Rollouts: a task with its options loaded, episodes, demonstrations; `engines/` complete prompts."""
