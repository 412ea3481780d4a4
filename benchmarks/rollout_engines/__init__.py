"""The rollout engines hf and vllm beside each other: see `python -m benchmarks.rollout_engines -h`."""
