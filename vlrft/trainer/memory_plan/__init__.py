"""The memory of a config's runs, planned before anything is built.

    model_shapes    a policy's shapes, from its config alone
    adapter_shapes  those of its LoRA adapters
    prompt_lengths  the prompts of a task
    planner         the plan of each stage, for one rank
    device_memory   the memory that there is
    verdict         one line on a run before it starts, or its refusal
    changes         what makes a run smaller
    proposal        a whole config that fits

Shapes are read from the model's config without its weights, prompt lengths from the task's data where they are available.
The arithmetic is in `vlrft/memory`. `vlrft train` and `vlrft doctor` both plan with it.
"""
