"""The rules by which a case is classified: what a user saw of a command that ended, and what became of a run's folder."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.campaign.case import Finding, Result
from benchmarks.campaign.process import Ended

UNTIMED = ("time", "speed", "memory")  # metrics that differ between equal runs
# An exception that nobody expected; an OSError is expected where its line begins with a file.
RAW_ERROR = re.compile(
    r"a fault of vlrft or of a plugin|no crash report|^vlrft: (?:\w+Error: )?[^:/]*\(--debug shows|^vlrft: \w+Error: ",
    re.MULTILINE,
)
FAILED, STOPPED = (1, 2, 3), (130, 143)  # exit codes that are documented
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
LINE = "vlrft: "


def judge_end(ended: Ended) -> list[Finding]:
    """Findings about the end of a command: a hang, a traceback, an exception without a line of ours, no line at all, control
    characters on the terminal."""
    problems = list(_problems(ended))
    return [
        Finding(outcome="unclear", text=f"{problem} ({ended.command[:200]})")
        for problem in problems
    ]


def _problems(ended: Ended) -> Iterable[str]:
    lines = [line for line in ended.err.splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    if ended.code is None:
        yield f"hangs; last line: {last}"
        return
    if "Traceback (most recent call last)" in ended.err:
        yield f"exit code {ended.code} with a traceback; last line: {last}"
    elif RAW_ERROR.search(ended.err):
        yield f"exit code {ended.code} with a raw exception: {shown_line(ended)}"
    elif ended.code in (*FAILED, *STOPPED):
        if LINE not in ended.err and "usage: vlrft" not in ended.err:
            yield f"exit code {ended.code} without a line of ours; last line: {last}"
    elif ended.code < 0:
        if -ended.code not in ended.sent:
            yield f"ended by signal {-ended.code}, which nobody sent"
    elif ended.code != 0:
        yield f"exit code {ended.code}, which is not documented; last line: {last}"
    for name, text in (("stdout", ended.out), ("stderr", ended.err)):
        if control := CONTROL.search(text):
            excerpt = text[max(0, control.start() - 40) : control.end() + 20]
            yield f"control character on {name}: {excerpt!r}"


def without_details(text: str) -> str:
    """A finding's text without what differs between cases of one fault: quoted parts, numbers, paths, the command."""
    text = re.sub(r"""'[^']*'|"[^"]*"| on b?['"].*|/\S+|\(vlrft .*""", "…", text, flags=re.DOTALL)
    return re.sub(r"\d+", "N", text)[:120]


def shown_line(ended: Ended) -> str:
    """The last line of ours that the command printed on stderr."""
    lines = [line for line in ended.err.splitlines() if line.startswith(LINE)]
    return lines[-1][:300] if lines else ""


def name_result(label: str, findings: Iterable[Finding], shown: str) -> Result:
    """The findings and the message that the user saw, each after the case's label."""
    named = (Finding(outcome=f.outcome, text=f"{label}: {f.text}") for f in findings)
    return Result(findings=tuple(named), shown=f"{label}: {shown}")


def fingerprint(run: Path) -> Mapping[str, str]:
    """Hashes of what equal runs have in common: final weights, the trainer's state, metrics without times."""
    last = run / "checkpoints/last"
    hashes = {}
    for name in ("model.safetensors", "trainer/state.safetensors"):
        file = last / name
        hashes[name] = _sha(file.read_bytes()) if file.is_file() else "missing"
    rows = _json_lines(run / "metrics.jsonl")
    stable = [{k: v for k, v in row.items() if k.split("/")[0] not in UNTIMED} for row in rows]
    hashes["metrics.jsonl"] = _sha(json.dumps(stable).encode())
    hashes["steps"] = str([row.get("step") for row in rows])
    return hashes


def judge_equal(run: Path, undisturbed: Mapping[str, str]) -> list[Finding]:
    """The parts of a run that differ from the undisturbed one."""
    own = fingerprint(run)
    differing = [name for name in undisturbed if own[name] != undisturbed[name]]
    if not differing:
        return []
    text = f"{', '.join(differing)} differ from the undisturbed run's (steps {own['steps']})"
    return [Finding(outcome="wrong", text=text)]


def snapshot(folder: Path) -> dict[str, str]:
    """Every file below a folder, by relative name, with the hash of its content."""
    files = (p for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
    return {str(p.relative_to(folder)): _sha(p.read_bytes()) for p in sorted(files)}


def judge_kept(folder: Path, before: Mapping[str, str]) -> list[Finding]:
    """Which of these files are gone or changed."""
    after = snapshot(folder)
    lost = [name for name, content in before.items() if after.get(name) != content]
    if not lost:
        return []
    return [Finding(outcome="lost", text=f"gone or changed: {', '.join(lost[:5])}")]


def _json_lines(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    rows = []
    for line in path.read_text(errors="replace").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
