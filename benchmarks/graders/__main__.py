"""The graders: their errors, against published verdicts and other code, and hostile answers.

python -m benchmarks.graders [PROGRAM …]
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.programs import run_program

if __name__ == "__main__":
    run_program("benchmarks.graders", Path(__file__).parent)
