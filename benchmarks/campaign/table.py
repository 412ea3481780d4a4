"""The table of a campaign, from its records: `python -m benchmarks.campaign.table RECORDS [--out FILE.md]`."""

from __future__ import annotations

import argparse
import json
import platform
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.campaign.case import WORST
from benchmarks.campaign.outcome import without_details

Row = Mapping[str, Any]


def read_records(path: Path) -> list[Row]:
    """The records of all complete lines."""
    if not path.exists():
        return []
    rows = []
    for line in path.read_text().split("\n"):
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def failures(rows: Sequence[Row]) -> list[Row]:
    """The last record of each case that did not survive then."""
    last = {_case_of(row): row for row in rows}
    return [row for row in last.values() if row["outcome"] != "survived"]


def _case_of(row: Row) -> str:
    return json.dumps([row["kind"], row["seed"], row["plan"]], sort_keys=True)


def render(rows: Sequence[Row]) -> str:
    """The table as Markdown: a row for each kind, and below it every finding once."""
    kinds = list(dict.fromkeys(str(row["kind"]) for row in rows))
    counts = Counter((row["kind"], row["outcome"]) for row in rows)
    names = list(reversed(WORST))
    lines = [
        "# Campaign of faults",
        "",
        "`python -m benchmarks.campaign --hours 2`, in several starts ([what is tried](../../docs/explanation/campaign.md)).",
        "",
        describe(rows),
        "",
        f"| kind | cases | inputs | {' | '.join(names)} | hours |",
        f"| --- | {'---: | ' * (len(names) + 3)}".rstrip(),
    ]
    for kind in [*sorted(kinds), "all"]:
        own = [row for row in rows if kind in (row["kind"], "all")]
        cells = [sum(counts[k, name] for k in kinds if kind in (k, "all")) for name in names]
        hours = sum(row["seconds"] for row in own) / 3600
        trials = sum(row["trials"] for row in own)
        lines.append(
            f"| {kind} | {len(own)} | {trials:,} | {' | '.join(map(str, cells))} | {hours:.2f} |"
        )
    return "\n".join([*lines, "", *_findings(rows)])


def describe(rows: Sequence[Row]) -> str:
    commits = list(dict.fromkeys(row["commit"] for row in rows))
    seeds = sorted({row["seed"] for row in rows})
    versions = rows[-1]["versions"] if rows else {}
    packages = ", ".join(f"{name} {version}" for name, version in versions.items())
    return (
        f"{platform.system()} {platform.machine()}, one core, {packages}. Commits {', '.join(commits)}; "
        f"seeds {seeds[0]} to {seeds[-1]}."
        if rows
        else "No records yet."
    )


def _findings(rows: Sequence[Row]) -> list[str]:
    """Each kind of finding once, with the cases that had it first and last."""
    failing = {_case_of(row) for row in failures(rows)}
    tries = Counter(map(_case_of, rows))
    alike: dict[tuple[str, str, str], list[tuple[Row, str]]] = defaultdict(list)
    for row in rows:
        for finding in row["findings"]:
            key = (str(row["kind"]), finding["outcome"], without_details(finding["text"]))
            alike[key].append((row, finding["text"]))
    if not alike:
        return ["No findings."]
    lines = [
        "| kind | outcome | cases | first | last | now | example |",
        "| --- | --- | ---: | --- | --- | --- | --- |",
    ]
    for (kind, outcome, _), own in sorted(alike.items()):
        first, last = (f"{row['seed']} at {row['commit']}" for row in (own[0][0], own[-1][0]))
        example = _shorten(own[0][1])
        still = [_case_of(row) for row, _ in own if _case_of(row) in failing]
        tried = any(tries[case] > 1 for case in still)
        now = ("fails" if tried else "not tried yet") if still else "survives"
        lines.append(
            f"| {kind} | {outcome} | {len(own)} | {first} | {last} | {now} | `{example}` |"
        )
    return [
        "Findings, each fault once: the first and the last seed that met it, with the commits, and whether the same case "
        "survives when it is done again.",
        "",
        *lines,
    ]


def _shorten(text: str) -> str:
    """A finding as a cell of a table: without the command, folders of the machine and what cannot be printed."""
    text = re.sub(r"/\S+/", "…/", text.partition(" (vlrft ")[0])
    text = text.replace("|", "\\|").replace("`", "'").replace("\n", " ")[:200]
    return "".join(c if c.isprintable() else "?" for c in text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("records", type=Path)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    text = render(read_records(args.records))
    print(text)
    if args.out:
        args.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
