"""Training: the loop, a run and its stages, batches, updates, metrics, checkpoints, the profiler, and the Python API."""
