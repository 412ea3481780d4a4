"""`vlrft doctor CONFIG`: how much memory a run takes at its peak, and which settings would make it fit."""
