"""A model of a run's pipeline: servers that sample, environments, and a trainer, by discrete events. Nothing is measured.

clock     events in the order of their times
server    a server that decodes many requests together, and is paused for new weights
plan      the sizes and times of a pipeline, and the work of its steps
simulate  plays the steps, with the pace of `rollout.ahead`
report    throughput, idle shares and staleness
"""
