"""Writes .ci/requirements.lock: the tested set of constraints.txt, with the hashes of every published file.

Run it after a change of pyproject.toml or constraints.txt, with uv on the path: `python .ci/lock.py`.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import tomllib

ROOT = Path(__file__).parent.parent
LOCK = ROOT / ".ci" / "requirements.lock"
PYTHON = "3.11.7"
BY_BUILD = re.compile(
    r"(torch|torchvision|triton|nvidia-.*|cuda-.*)=="
)  # differ by accelerator and by index
NOT_LOCKED = {"all", "trackio", "wandb"}  # `all` names others; the trackers are in no test
HEADER = f"""\
# The tested set with hashes, for Python {PYTHON} or later of 3.11. Made by .ci/lock.py; do not edit.
# torch and torchvision are left out: their builds differ by accelerator and by index. Install with
#   pip install -c constraints.txt torch torchvision && pip install --require-hashes --no-deps -r .ci/requirements.lock && pip install --no-deps -e .
"""


def compile_lock(extras: list[str]) -> str:
    """The packages that uv resolves, one block a package: `name==version` and its hashes.

    Raises:
        subprocess.CalledProcessError: nothing satisfies pyproject.toml and constraints.txt together
    """
    command = ["uv", "pip", "compile", "--quiet", "--generate-hashes", f"--python-version={PYTHON}"]
    command += ["--no-emit-index-url", "--no-emit-find-links", "--no-annotate", "--no-header"]
    command += ["-c", "constraints.txt", "pyproject.toml", *(f"--extra={e}" for e in extras)]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def drop_builds(lock: str) -> str:
    """The lock without the packages that belong to a build of torch."""
    blocks = re.split(r"\n(?=\S)", lock.strip())
    return "\n".join(block for block in blocks if not BY_BUILD.match(block)) + "\n"


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = sorted(project["optional-dependencies"].keys() - NOT_LOCKED)
    LOCK.write_text(HEADER + drop_builds(compile_lock(extras)), encoding="utf-8")


if __name__ == "__main__":
    main()
