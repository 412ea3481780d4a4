"""The checks and measurements that need a GPU; `make gpu` runs all programs.

python -m benchmarks.gpu PROGRAM
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.programs import run_program

if __name__ == "__main__":
    run_program("benchmarks.gpu", Path(__file__).parent)
