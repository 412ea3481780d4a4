"""Every working system of the catalogue that a small text policy can run, trained beside its control and beside GRPO."""
