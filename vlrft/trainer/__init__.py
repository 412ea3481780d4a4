"""Training: the loop, a run and its stages, batches, updates, metrics, checkpoints."""
