"""Rewards, graders, tasks and engines by name, by `package.module:name` or by file."""
