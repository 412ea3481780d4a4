"""The rows that a run leaves out, listed in a file of its folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from vlrft.data import RowSamples
from vlrft.data.atomic import write_atomically
from vlrft.distributed.ranks import Ranks
from vlrft.reporting.run_folder.names import LEFT_OUT
from vlrft.rollout.task import LoadedTask


def list_left_out(tasks: Mapping[str, LoadedTask], folder: Path, ranks: Ranks) -> list[str]:
    """Writes `left_out.jsonl`, a line for each row: whose it is, its id, reason and detail. Returns a line for each task of
    which rows were left out. `tasks`: by what they are of, such as "stage rl"."""
    defects = {
        name: loaded.samples.left_out
        for name, loaded in tasks.items()
        if isinstance(loaded.samples, RowSamples) and loaded.samples.left_out
    }
    lines = [
        json.dumps(
            {"of": name, "id": d.id, "reason": d.reason, "detail": d.detail}, ensure_ascii=False
        )
        for name, rows in defects.items()
        for d in rows
    ]
    path = folder / LEFT_OUT
    if lines:
        text = "".join(f"{line}\n" for line in lines)
        ranks.run_on_first(lambda: write_atomically(path, text.encode(errors="replace")))
    return [
        f"{name}: {len(rows)} of {len(rows) + len(tasks[name].samples)} rows are left out (task.on_bad=skip), listed in {path}"
        for name, rows in defects.items()
    ]
