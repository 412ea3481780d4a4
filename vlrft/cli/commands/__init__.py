"""One module a command, each with `run(args)`; imported only when it is called."""
