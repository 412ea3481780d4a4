"""Peak memory by formula, from shapes and lengths alone: nothing is built. No torch.

    limits          bounds on how much the code keeps at once, read by the code and by the plan
    shapes          a model, and the prompts and completions it works on
    workload        how the work of a step is split into batches, by the functions that split the real work
    saved_tensors   what a forward pass keeps for the backward pass
    transient       what a pass allocates and frees again
    rank_memory     what depends on the train engine: weights, gradients, optimiser
    update_phase, sampling_phase, phases -> plan

`vlrft/trainer/memory_plan` reads shapes and lengths from a config; `vlrft doctor` prints the plan.
"""
