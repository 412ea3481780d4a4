"""The three states of torchvision, each in a new process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors

from vlrft.policy.families.qwen2_vl import QWEN_VISION
from vlrft.vision.processor import (
    State,
    Torchvision,
    load_image_processor,
    prepare_torchvision,
)

# As torchvision does at import, where its C++ library may have failed to load.
TORCHVISION = """
import torch
@torch.library.register_fake("torchvision::nms")
def nms(dets, scores, iou_threshold):
    return dets
@torch.library.register_fake("torchvision::qnms")
def qnms(dets, scores, iou_threshold):
    return dets
"""
HEALTHY = "import torch\nlib = torch.library.Library('torchvision', 'DEF')\n" + "".join(
    f"lib.define('{name}(Tensor a, Tensor b, float c) -> Tensor')\n" for name in ("nms", "qnms")
)
HIDDEN = """
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "torchvision" else find(name, *rest)
"""
PROBE = """
import sys
from vlrft.vision.processor import prepare_torchvision
state = prepare_torchvision().state
if state != "absent":
    import torchvision
assert prepare_torchvision() is prepare_torchvision()
print(state)
"""


def run(code: str, folder: Path) -> str:
    """The output of a new process that finds packages in `folder` first."""
    path = os.pathsep.join([str(folder), str(Path(__file__).parents[2])])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


LIBRARIES = ("_C.so", "_C_stable.so")  # torchvision to 0.28, and from 0.29


def install(folder: Path, code: str, name: str, library: bytes) -> None:
    (folder / "torchvision").mkdir()
    (folder / "torchvision" / "__init__.py").write_text(code)
    (folder / "torchvision" / name).write_bytes(library)


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_cuda_build_next_to_a_cpu_torch_becomes_importable(tmp_path: Path, name: str) -> None:
    install(tmp_path, TORCHVISION, name, b"needs libcudart")
    assert run(PROBE, tmp_path) == "repaired"


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_healthy_build_is_not_changed(tmp_path: Path, name: str) -> None:
    library = next(Path(str(safetensors.__file__)).parent.glob("*.so"))  # any library that loads
    install(tmp_path, HEALTHY + TORCHVISION, name, library.read_bytes())
    assert run(PROBE, tmp_path) == "healthy"


PROCESSORS = """
from vlrft.policy.families.qwen2_vl import QWEN_VISION
from vlrft.vision.processor import load_image_processor
built = QWEN_VISION.build_processor()
built.save_pretrained("{folder}")
print(type(built).__name__, type(load_image_processor("{folder}")).__name__)
"""


def test_without_torchvision_the_pil_processor_is_used(tmp_path: Path) -> None:
    assert run(HIDDEN + PROBE, tmp_path) == "absent"
    code = HIDDEN + PROCESSORS.format(folder=tmp_path / "saved")
    assert run(code, tmp_path) == "Qwen2VLImageProcessorPil Qwen2VLImageProcessorPil"


@pytest.mark.parametrize(
    ("state", "backend"), [("repaired", "pil"), ("absent", "pil"), ("healthy", None)]
)
def test_only_a_torchvision_that_fits_torch_processes_images(
    state: State, backend: str | None
) -> None:
    assert Torchvision(state=state).backend == backend


def test_the_processors_here_are_those_of_the_backend_in_use(tmp_path: Path) -> None:
    built = QWEN_VISION.build_processor()
    built.save_pretrained(tmp_path)
    pil = prepare_torchvision().backend == "pil"
    for processor in (built, load_image_processor(str(tmp_path))):
        assert type(processor).__name__.endswith("Pil") == pil
