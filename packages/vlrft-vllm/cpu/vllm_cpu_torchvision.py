"""Declares the operators of a torchvision whose compiled library cannot be loaded, before its first import.

PyPI's torchvision is a CUDA build. Next to a torch for CPUs its import fails with "operator torchvision::nms does not
exist", and vLLM imports it by way of transformers before it asks any plug-in. So this module is imported at the start of each
process of the environment, by the .pth file beside it; it imports torch only when torchvision is imported. Declaring the two
schemas is enough for everything in pure Python: vLLM gets pixels from vlrft and runs no operator of torchvision.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

LIBRARIES = ("_C.so", "_C_stable.so")  # up to torchvision 0.28, and from 0.29
OPERATORS = ("nms", "qnms")


class BeforeTorchvision(MetaPathFinder):
    """Declares the operators when torchvision is looked for, and leaves the import to the other finders."""

    declared: Any = None  # the operators exist as long as this library object, and so as FINDER

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == "torchvision":
            sys.meta_path.remove(self)
            spec = PathFinder.find_spec(name, path, target)
            if spec is not None and spec.origin is not None:
                self.declared = declare_missing_operators(Path(spec.origin).parent)
        return None


def declare_missing_operators(torchvision: Path) -> Any:
    """A torch library with the operators, where no compiled library in the folder can be loaded; else None."""
    import torch

    for name in LIBRARIES:
        try:
            torch.ops.load_library(str(torchvision / name))
            return None
        except (ImportError, OSError):
            continue
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in OPERATORS:
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


FINDER = BeforeTorchvision()
sys.meta_path.insert(0, FINDER)
