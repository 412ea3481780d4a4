"""The commands, a module each, with `run(args)`. A module is imported when its command is run."""
