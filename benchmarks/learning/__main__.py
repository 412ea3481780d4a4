"""Training runs over seeds, tasks and packs.

python -m benchmarks.learning [PROGRAM …]
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.programs import run_program

if __name__ == "__main__":
    run_program("benchmarks.learning", Path(__file__).parent)
