"""Comparisons with transformers' own forward, and of a killed run with an undisturbed one.

python -m benchmarks.correctness [PROGRAM …]
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.programs import run_program

if __name__ == "__main__":
    run_program("benchmarks.correctness", Path(__file__).parent)
