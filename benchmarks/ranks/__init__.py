"""Several ranks against one process: gradients, curves, kills, memory."""
