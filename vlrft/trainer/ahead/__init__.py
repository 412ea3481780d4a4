"""Rollouts ahead of training: steps that are sampled while earlier ones are trained.

    misfits     what does not go with `rollout.ahead`, found before a run
    steps       jobs of consecutive steps in threads, paced by the weights and taken in order
    stoppable   a streaming engine whose futures end when the run does
    collecting  the groups of a stage's steps, in turn or ahead
    probe       fresh completions to compare with the trainer
    staleness   how old the weights are that sampled a step's tokens

A job never communicates with other ranks and changes nothing that a checkpoint holds: the main thread does both when it
takes the step, in the order of the steps. So prompts, seeds and batches do not depend on which job ends first.
"""
