"""Rewards and graders applied to rollouts: signatures, calls in this process or in workers, weighted sums."""
