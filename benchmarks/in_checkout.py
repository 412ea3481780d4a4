"""Runs a module of these benchmarks with the `vlrft` of another checkout.

    python benchmarks/in_checkout.py CHECKOUT MODULE [ARGUMENT …]

So both sides of a comparison are measured by the same code. Modules of `vlrft.testing` that the other checkout lacks are
taken from this one.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import types
from pathlib import Path

HERE = Path(__file__).resolve().parent
QUIET = {
    "OMP_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "1048576",  # resident memory is memory in use: see benchmarks.memory
    "TOKENIZERS_PARALLELISM": "false",
}


def run_lines(checkout: Path, module: str, *arguments: str) -> list[str]:
    """The lines of JSON that a module prints in a new process on one thread, with the checkout's `vlrft`."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | QUIET
    command = [sys.executable, str(Path(__file__).resolve()), str(checkout), module, *arguments]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{module} {' '.join(arguments)} failed with {checkout}: see above")
    return [line for line in done.stdout.splitlines() if line.startswith("{")]


def _run(checkout: Path, module: str, arguments: list[str]) -> None:
    sys.path[0] = str(checkout)
    benchmarks = types.ModuleType("benchmarks")
    benchmarks.__path__ = [str(HERE)]
    sys.modules["benchmarks"] = benchmarks
    import vlrft.testing

    if not Path(vlrft.testing.__file__).is_relative_to(checkout):
        raise SystemExit(f"{checkout}: no checkout of vlrft")
    vlrft.testing.__path__.append(str(HERE.parent / "vlrft/testing"))
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _run(Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3:])
