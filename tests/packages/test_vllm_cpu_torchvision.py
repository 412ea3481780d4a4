"""The repair of a torchvision for CUDA next to a torch for CPUs, each case in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPAIR = Path(__file__).parents[2] / "packages" / "vlrft-vllm" / "cpu"
BROKEN = 'import torch\nassert hasattr(torch.ops.torchvision, "nms")\ntorch.ops.torchvision.nms.default\n'


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs code where `torchvision` is found in the folder."""
    command = [
        sys.executable,
        "-c",
        f"import sys; sys.path[:0] = [{str(REPAIR)!r}, {str(folder)!r}]\n{code}",
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def torchvision(tmp_path: Path) -> Path:
    """A folder with a torchvision that needs its operators at import, and has no library that declares them."""
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text(BROKEN)
    return tmp_path


def test_the_operators_are_declared_before_torchvision_and_torch_is_not_imported_earlier(
    torchvision: Path,
) -> None:
    done = run(
        "import gc, vllm_cpu_torchvision\nassert 'torch' not in sys.modules\n"
        "import torchvision, torch; gc.collect()\nassert torch.ops.torchvision.nms.default",
        torchvision,
    )
    assert done.returncode == 0, done.stderr


def test_without_the_repair_that_torchvision_cannot_be_imported(torchvision: Path) -> None:
    done = run("import torchvision", torchvision)
    assert done.returncode != 0
    assert "nms" in done.stderr


def test_the_file_that_starts_the_repair_names_its_module() -> None:
    (start,) = REPAIR.glob("*.pth")
    (module,) = REPAIR.glob("*.py")
    assert start.read_text().strip() == f"import {module.stem}"
