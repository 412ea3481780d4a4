"""Speed: tokens a second, kernels and syncs a token, MFU of the update, step split, and the same by TRL."""

from __future__ import annotations

import sys

from benchmarks.gpu.suite import Suite, run_suite

SUITE = Suite(
    name="speed",
    title="How fast is vlrft on a GPU?",
    about=("rollouts, updates and their parts.",),
    cases={},
)


def main() -> int:
    return run_suite(SUITE)


if __name__ == "__main__":
    sys.exit(main())
