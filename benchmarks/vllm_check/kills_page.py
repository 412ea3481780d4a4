"""The page of the killed servers."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]
INTRODUCTION = """\
# A server of vLLM that is killed while it takes weights

`python -m benchmarks.vllm_check.kills --write`: a small Qwen2-VL in float32 is changed and sent to a server, which gets the signal when a file
is about to be loaded, or when a broadcast has sent half of its tensors. The server is started again with the changed weights. {machine}, CPU alone;
most of the time is the start of vLLM. A server that is stopped (SIGSTOP) answers nothing and has not ended: it is
noticed by time limits alone (`rollout.engine.update_seconds`: {hang:.0f} s in this case, 600 s by default).

| weights | victim | signal | noticed after, s | new weights there after, s | gap to the trainer then | processes left |
| --- | --- | --- | ---: | ---: | ---: | ---: |
"""


def write_page(rows: Sequence[Row], hang: float) -> str:
    """A line for each case, and what the run said first."""
    table, said = [], []
    for row in rows:
        transfer, victim, number = row["case"].split("_")
        table.append(
            f"| {transfer} | {victim} | {number.upper()} | {row['noticed_after']:.1f} | {row['weights_after']:.0f} | {row['gap']:.1e} "
            f"| {len(row['left_running'])} |"
        )
        said.append(f"- {transfer}, {victim}: `{shorten(row['said'][0])}`")
    head = INTRODUCTION.format(machine=f"{platform.machine()}", hang=hang)
    return (
        "\n".join([head + "\n".join(table), "", "The first line that the run said:", "", *said])
        + "\n"
    )


def shorten(line: str) -> str:
    """Without the address, and without the last lines of the server's log."""
    before, _, rest = line.partition("; last lines of ")
    return f"{before}; …{rest.rpartition(';')[2]}" if rest else line
