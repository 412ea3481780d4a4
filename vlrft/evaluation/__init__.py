"""Evaluation: rollouts of a split, their grades and metrics with intervals, result files, paired comparison."""
