"""Runs of the quickstart with the rollout engine `vllm` beside `hf`."""
