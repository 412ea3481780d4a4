"""`vlrft doctor CONFIG`: how much memory a run takes at its peak, and which settings would make it fit.

Shapes are read from the model's config without its weights, prompt lengths from the task's data where they are available.
The arithmetic is in `vlrft/memory`.
"""
