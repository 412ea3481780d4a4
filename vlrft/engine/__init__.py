"""Train engines: the optimiser, and how weights, gradients and optimiser state are sharded over the ranks."""

from vlrft.engine.find import (
    ENGINES,
    build_engine,
    check_quantization,
    find_engine,
    planned_choices,
    rank_memory,
)
from vlrft.engine.protocols import EngineKind, MemoryModel, TrainEngine

__all__ = [
    "ENGINES",
    "EngineKind",
    "MemoryModel",
    "TrainEngine",
    "build_engine",
    "check_quantization",
    "find_engine",
    "planned_choices",
    "rank_memory",
]
