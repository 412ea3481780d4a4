"""Output of a run: metrics, rollouts, the console, trackers, and the HTML report."""
