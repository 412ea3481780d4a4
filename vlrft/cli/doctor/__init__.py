"""What `planning` is told, read from a config: a model's shapes without its weights, prompts without a run."""
