"""The entry point of the group `vllm.general_plugins`, which each process of vLLM calls before it loads a model."""

from __future__ import annotations

from vlrft_vllm.version_window import refuse_other_versions

BACKEND = "vlrft"


def register() -> None:
    """Registers the weight backend `vlrft`. May be called more than once in a process.

    Raises RuntimeError outside the window of vLLM's versions.
    """
    refuse_other_versions()
    from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory as Factory

    if BACKEND not in Factory._registry:
        Factory.register_engine(BACKEND, "vlrft_vllm.weight_updates", "WeightUpdates")
