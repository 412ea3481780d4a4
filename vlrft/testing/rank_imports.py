"""Imports of ranks in tests. The server that they are forked from imports this module, so that none of them waits for it."""

from __future__ import annotations

from importlib import import_module

from vlrft.vision.processor import prepare_torchvision

prepare_torchvision()
for name in ("vlrft.trainer.train", "vlrft.engine.fsdp.engine"):
    import_module(name)
for family in ("qwen2", "qwen2_vl"):
    import_module(f"transformers.models.{family}.modeling_{family}")
