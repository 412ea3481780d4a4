"""Update, rollout and whole step on one GPU."""
