"""The cost of objectives, of the training loop and of the command line.

python -m benchmarks.cost [PROGRAM …]
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.programs import run_program

if __name__ == "__main__":
    run_program("benchmarks.cost", Path(__file__).parent)
