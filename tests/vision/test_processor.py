"""The three states of torchvision, each in a new process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
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


def run(code: str, folder: Path, *arguments: str) -> str:
    """The output of a new process that finds packages in `folder` first."""
    path = os.pathsep.join([str(folder), str(Path(__file__).parents[2])])
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


LIBRARIES = ("_C.so", "_C_stable.so")  # torchvision to 0.28, and from 0.29
BUILDS = [(kind, name) for kind in ("cuda", "healthy") for name in LIBRARIES]
# torch is imported once; each build is found by a fork of its own.
IN_FORKS = f"""
import os, sys, traceback
import torch, vlrft.vision.processor
for folder in sys.argv[1:]:
    if os.fork() == 0:
        sys.path.insert(0, folder)
        with open(folder + "/state", "w") as sys.stdout:
            try:
                exec({PROBE!r})
            except BaseException:
                traceback.print_exc(file=sys.stdout)
        os._exit(0)
    os.wait()
"""


def install(folder: Path, code: str, name: str, library: bytes) -> None:
    (folder / "torchvision").mkdir(parents=True)
    (folder / "torchvision" / "__init__.py").write_text(code)
    (folder / "torchvision" / name).write_bytes(library)


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> Mapping[tuple[str, str], str]:
    """A process's verdict on each build of torchvision."""
    root = tmp_path_factory.mktemp("builds")
    loads = next(Path(str(safetensors.__file__)).parent.glob("*.so")).read_bytes()  # any library
    folders = {}
    for kind, name in BUILDS:
        folders[kind, name] = folder = root / kind / name.partition(".")[0]
        code, library = TORCHVISION, b"needs libcudart"
        if kind == "healthy":
            code, library = HEALTHY + TORCHVISION, loads
        install(folder, code, name, library)
    run(IN_FORKS, root, *map(str, folders.values()))
    return {build: (folder / "state").read_text() for build, folder in folders.items()}


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_cuda_build_next_to_a_cpu_torch_becomes_importable(
    states: Mapping[tuple[str, str], str], name: str
) -> None:
    assert states["cuda", name] == "repaired\n"


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_healthy_build_is_not_changed(states: Mapping[tuple[str, str], str], name: str) -> None:
    assert states["healthy", name] == "healthy\n"


PROCESSORS = """
from vlrft.policy.families.qwen2_vl import QWEN_VISION
from vlrft.vision.processor import load_image_processor
built = QWEN_VISION.build_processor()
built.save_pretrained("{folder}")
print(type(built).__name__, type(load_image_processor("{folder}")).__name__)
"""


def test_without_torchvision_the_pil_processor_is_used(tmp_path: Path) -> None:
    code = HIDDEN + PROBE + PROCESSORS.format(folder=tmp_path / "saved")
    assert run(code, tmp_path) == "absent\nQwen2VLImageProcessorPil Qwen2VLImageProcessorPil"


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
