"""Train engines: who holds the optimiser, and how weights, gradients and its state are sharded over the ranks."""

from vlrft.engine.find import build_engine, engines, find_engine, planned_choices, rank_memory
from vlrft.engine.protocols import EngineConfig, MemoryModel, TrainEngine

__all__ = [
    "EngineConfig",
    "MemoryModel",
    "TrainEngine",
    "build_engine",
    "engines",
    "find_engine",
    "planned_choices",
    "rank_memory",
]
