"""Peak memory by formula, from shapes and lengths alone: nothing is built. No torch.

    limits          bounds on how much the code keeps at once, read by the code and by the plan
    shapes          a model, and the prompts and completions it works on
    workload        the work of a step, and its batches of requests
    micro_batches   how the rows of an update are split, by the function that splits the real ones
    saved_tensors   what a forward pass keeps for the backward pass
    transient       what a pass allocates and frees again
    rank_memory     what depends on the train engine: weights, gradients, optimiser
    update_phase, sampling_phase, phases -> plan

`vlrft/trainer/memory_plan` reads shapes and lengths from a config; `vlrft doctor` prints the plan.
"""
