"""Gold answers paired by hand with answers: `by_hand.yaml`, on which graders were corrected, and `unseen.yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import yaml

Pairs = dict[str, list[tuple[str, str]]]  # kind -> (gold answer, answer)


class PairedAnswers(NamedTuple):
    """Pairs that a grader should pass, and pairs that it should not."""

    equal: Pairs
    unequal: Pairs


def read_pairs(name: str) -> PairedAnswers:
    """The pairs of `NAME.yaml` in this folder."""
    tables = yaml.safe_load(Path(__file__).with_name(f"{name}.yaml").read_text(encoding="utf-8"))
    equal, unequal = (
        {kind: [(gold, answer) for gold, answer in pairs] for kind, pairs in tables[key].items()}
        for key in ("equal", "unequal")
    )
    return PairedAnswers(equal, unequal)
