"""The policy: models and their processors, the packed forward, log-probs."""
