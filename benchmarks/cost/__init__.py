"""The cost of the loop, of the command, and of each objective."""
