"""Where the time goes: nested phases of a step, and the profiler that reports them."""
