"""Every published form of every data set, used as a user would: prepare, check, show, train two steps, evaluate.

    python -m tests.tasks.published_matrix [RECORD …]

prints a table of record × form × step with the reason of each failure. `test_published.py` runs the same steps.
"""

from __future__ import annotations

import io
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.fixtures.published.forms import Copy, forms_of, hub_from, write
from tests.fixtures.published.record import Record, load_records
from tests.fixtures.published.values import CLASSES
from vlrft.cli.main import main

STEPS = ("prepare", "check", "show", "train", "eval")
SHORT = {"alfworld": {"max_steps": 2}}  # options of episodes that a policy plays
Reasons = Mapping[
    str, str
]  # step -> why it failed; empty: it worked; a step that is absent was not tried


@dataclass(frozen=True, kw_only=True)
class Case:
    """The data that a record gives its pack: the rows of each split, and their gold answers."""

    record: str
    splits: Mapping[str, int]  # of the pack
    golds: frozenset[str] = (
        frozenset()
    )  # of all splits, as `gold_key` writes them; empty: not compared
    own: bool = False  # the pack's own hub id: nothing is given as options.data


def gold_key(answer: Any) -> str:
    """A gold answer as text: words in any order, without case and underscores, as class names are written in many ways."""
    text = json.dumps(answer) if not isinstance(answer, str) else answer
    return " ".join(sorted(re.split(r"[\s_]+", text.strip().casefold())))


def _golds(*answers: Any) -> frozenset[str]:
    return frozenset(gold_key(answer) for answer in answers)


def _classes(record: str, dataset: str, **splits: int) -> Case:
    return Case(
        record=record, splits=splits, golds=_golds(*CLASSES[dataset]), own="virft" in record
    )


GEOMETRY = ("6 \\sqrt { 3 }", "\\frac { 15 } { 2 }", "12.5")
HALVES = [f"\\frac{{{k}}}{{2}}" for k in range(8)]
CASES = (
    Case(
        record="geometry3k_hub",
        splits={"train": 8, "validation": 4, "test": 4},
        golds=_golds(*GEOMETRY, "6", "10", "7", "3"),  # values, never the letters of ground_truth
        own=True,
    ),
    Case(
        record="geometry3k_intergps",
        splits={"train": 3, "validation": 2, "test": 2},
        golds=_golds(*GEOMETRY),
    ),
    Case(
        record="geoqa_train",
        splits={"train": 8},
        golds=_golds("145°", "65π", "8√{3}", "\\frac{3}{2}"),
        own=True,
    ),
    Case(record="geoqa_test", splits={"test": 3}, golds=_golds("140°", "4√{2}cm", "15π")),
    Case(record="counting_train", splits={"train": 8}, golds=_golds(*range(8)), own=True),
    Case(record="counting_test", splits={"test": 3}, golds=_golds(4, 5, 6)),
    Case(
        record="sat_train",
        splits={"train": 7, "test": 4},  # of eight training rows one has two pictures
        golds=_golds("left", "right", "3", "4", "5"),
    ),
    Case(
        record="cvbench",
        splits={"test": 4},
        golds=_golds("the chair 0", "the lamp", "the chair 2"),
        own=True,
    ),
    Case(
        record="cvbench_old", splits={"test": 4}, golds=_golds("the chair 0", "the lamp", "the chair 2")
    ),
    _classes("virft_pets", "pets37", train=8),
    _classes("virft_flowers", "flowers102", train=8),
    _classes("virft_aircraft", "fgvc_aircraft100", train=8),
    _classes("virft_cars", "cars196", train=8),
    _classes("pets_official", "pets37", train=8, test=4),
    _classes("aircraft_official", "fgvc_aircraft100", train=8, test=4),
    _classes("flowers_official", "flowers102", train=8, test=4),
    _classes("cars_official", "cars196", train=8, test=4),
    _classes("pets_coop", "pets37", train=8, test=4),
    _classes("flowers_coop", "flowers102", train=8, test=4),
    _classes("cars_coop", "cars196", train=8, test=4),
    _classes("pets_visual_rft", "pets37", test=4),
    _classes("flowers_visual_rft", "flowers102", test=4),
    _classes("aircraft_visual_rft", "fgvc_aircraft100", test=4),
    _classes("cars_visual_rft", "cars196", test=4),
    _classes("flowers_mirror", "flowers102", train=8, test=4),
    _classes("cars_mirror", "cars196", train=8),
    Case(record="reasonseg", splits={"train": 6, "val": 2, "test": 2}),
    Case(record="reasonseg_hub_val", splits={"val": 4}),
    Case(record="reasonseg_hub_test", splits={"test": 4}),
    Case(
        record="gsm8k",
        splits={"train": 8, "test": 4},
        golds=_golds(*(str(1000 + k) for k in range(8))),
        own=True,
    ),
    Case(record="math_lighteval", splits={"train": 8, "test": 4}, golds=_golds(*HALVES), own=True),
    Case(record="math500", splits={"test": 4}, golds=_golds(*HALVES), own=True),
    Case(
        record="aime_2024", splits={"test": 8}, golds=_golds(*(str(200 + k) for k in range(8))), own=True
    ),
    Case(
        record="amc23", splits={"test": 8}, golds=_golds(*(f"{20.0 + k}" for k in range(8))), own=True
    ),
    Case(record="minerva", splits={"test": 8}, golds=_golds(*HALVES), own=True),
    Case(record="olympiadbench", splits={"test": 8}, own=True),
    Case(record="math_eval", splits={"test": 20}),
    Case(record="math12k", splits={"train": 8, "test": 4}, golds=_golds(*HALVES), own=True),
    Case(record="open_s1", splits={"train": 8}, golds=_golds(*HALVES), own=True),
    Case(record="open_rs", splits={"train": 8}, golds=_golds(*HALVES), own=True),
    Case(record="dapo17k", splits={"train": 4}, golds=_golds("4", "5", "6", "7"), own=True),
    Case(record="simplerl_zoo", splits={"train": 8}, golds=_golds(*HALVES), own=True),
    Case(record="deepscaler", splits={"train": 8}, golds=_golds(*HALVES), own=True),
    Case(record="countdown", splits={"train": 5, "test": 3}, own=True),  # held out by hash
    Case(record="alfred", splits={"train": 2, "valid_unseen": 1}),
    Case(record="refcoco_lmms", splits={"val": 8, "testA": 8, "testB": 8}, own=True),
    Case(record="refcocoplus_lmms", splits={"val": 8, "testA": 8, "testB": 8}, own=True),
    Case(record="refcocog_lmms", splits={"val": 8, "test": 8}, own=True),
    Case(record="refcoco_vlm_r1", splits={"train": 3, "val": 3}),
    Case(record="virft_coco", splits={"train": 8}, own=True),
    Case(record="virft_coco_base65", splits={"train": 8}, own=True),
    Case(record="virft_coco_few_shot", splits={"train": 8}, own=True),
    Case(record="virft_lvis_few_shot", splits={"train": 8}, own=True),
)  # fmt: skip
RECORDS = load_records()


def cells() -> Iterator[tuple[Case, str]]:
    """Each case with each of its forms; one with a single split is its first."""
    for case in CASES:
        for form in forms_of(RECORDS[case.record]):
            first = dict(list(case.splits.items())[:1])
            yield replace(case, splits=first) if form == "split_on_disk" else case, form


def use(
    case: Case,
    form: str,
    folder: Path,
    model: Path,
    steps: Sequence[str] = STEPS,
    games: Path | None = None,
) -> dict[str, str]:
    """Runs the steps on a small copy below the folder; why each failed: empty where it worked, "-" where it does not
    apply. `games`: playable games for ALFRED's folders."""
    record = RECORDS[case.record]
    copy = write(record, form, folder / "copy", games)
    with hub_from(copy.hub, folder / "cache"):
        return {step: RUNS[step](record, case, copy, folder, model) for step in steps}


def make_games(folder: Path) -> Path:
    """Generates a few playable games in the folder. Needs the engine."""
    from vlrft.tasks.alfworld.generation import generate

    for split, count in (("train", 2), ("valid_unseen", 1)):
        list(generate(split, count, 0, folder))
    return folder


def _arguments(record: Record, case: Case, copy: Copy) -> tuple[list[str], dict[str, Any]]:
    """`options.KEY=VALUE` for the commands, and the same as options of a config."""
    options = dict(record.options)
    if not (case.own and copy.hub):
        options["data"] = copy.data
    return [f"options.{k}={json.dumps(v)}" for k, v in options.items()], options


def prepare(record: Record, case: Case, copy: Copy, folder: Path, model: Path) -> str:
    """Prepares the splits, and compares the rows with the published ones: their number and their gold answers."""
    if record.pack == "alfworld":  # its games are read as they are
        return "-"
    arguments, _ = _arguments(record, case, copy)
    out = folder / "prepared"
    splits = [part for split in case.splits for part in ("--split", split)]
    if reason := call("data", "prepare", record.pack, *splits, "--out", str(out), *arguments):
        return reason
    for split, expected in case.splits.items():
        rows = [json.loads(line) for line in (out / f"{split}.jsonl").read_text().splitlines()]
        if len(rows) != expected:
            return f"{split} has {len(rows)} rows, published were {expected}"
        if wrong := [
            r["answer"] for r in rows if case.golds and gold_key(r["answer"]) not in case.golds
        ]:
            return f"gold answer {wrong[0]!r} of {split} is not the published one"
    return ""


def check(record: Record, case: Case, copy: Copy, folder: Path, model: Path) -> str:
    arguments, _ = _arguments(record, case, copy)
    splits = [part for split in case.splits for part in ("--split", split)]
    few = ["--limit", "1"] if record.pack == "alfworld" else []  # an episode takes seconds
    return call("check", record.pack, *splits, *few, *arguments)


def show(record: Record, case: Case, copy: Copy, folder: Path, model: Path) -> str:
    arguments, _ = _arguments(record, case, copy)
    splits = [part for split in case.splits for part in ("--split", split)]
    return call("data", "show", record.pack, *splits, *arguments)


def train(record: Record, case: Case, copy: Copy, folder: Path, model: Path) -> str:
    """Two steps of SFT on the train split, if the set has one, with evaluations on one sample of the last."""
    _, options = _arguments(record, case, copy)
    if "train" not in case.splits:
        return "-"
    config = {
        "task": {"name": record.pack, "options": {**options, **SHORT.get(record.pack, {})}},
        "policy": {"model": str(model)},
        "algorithm": "sft",  # a tiny policy earns no reward, which would end the run with an error
        "rollout": {"max_tokens": 4, "max_prompt_tokens": 4096},
        "stages": [{"steps": 2, "prompts_per_step": 2}],
        "eval": {"split": list(case.splits)[-1], "limit": 1},
    }
    path = folder / "config.yaml"
    path.write_text(json.dumps(config))
    if reason := call("train", str(path), "--out", str(folder / "run")):
        return reason
    steps = (folder / "run/metrics.jsonl").read_text().splitlines()
    return "" if len(steps) == 2 else f"{len(steps)} steps, expected 2"


def evaluate(record: Record, case: Case, copy: Copy, folder: Path, model: Path) -> str:
    arguments, _ = _arguments(record, case, copy)
    split = list(case.splits)[-1]
    out = folder / "eval.json"
    arguments += [f"options.{k}={v}" for k, v in SHORT.get(record.pack, {}).items()]
    more = ["rollout.max_tokens=4", "rollout.max_prompt_tokens=4096", *arguments]
    fixed = ["--task", record.pack, "--split", split, "--limit", "2", "--json", str(out)]
    if reason := call("eval", "--model", str(model), *fixed, *more):
        return reason
    answers = json.loads(out.read_text())["n"]
    return "" if answers else "no answers"


RUNS: Mapping[str, Callable[[Record, Case, Copy, Path, Path], str]] = {
    "prepare": prepare,
    "check": check,
    "show": show,
    "train": train,
    "eval": evaluate,
}


def call(*arguments: str) -> str:
    """Runs a command in this process; the last line of its errors if it fails, else nothing."""
    out, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        code = main(list(arguments))
    if not code:
        return ""
    lines = errors.getvalue().strip().splitlines() or [f"exit code {code}"]
    return lines[-1]


def save_tiny_policy(folder: Path) -> Path:
    """A policy of about ten thousand weights in a folder, which all cells share."""
    from vlrft.policy.load import load_policy
    from vlrft.testing.small_policies import CORPUS, tiny_config

    load_policy(tiny_config("qwen2_vl"), corpus=CORPUS, seed=0).save(folder)
    return folder


def table(results: Mapping[tuple[str, str], Reasons]) -> list[str]:
    """Markdown: a row a cell, then the reasons."""
    lines = [f"| record | form | {' | '.join(STEPS)} |", f"|---|---|{'---|' * len(STEPS)}"]
    for (record, form), reasons in results.items():
        marks = {"": "ok", "-": "-"}
        lines.append(
            f"| {record} | {form} | {' | '.join(marks.get(reasons[s], '**no**') for s in STEPS)} |"
        )
    return lines


def tell(results: Mapping[tuple[str, str], Reasons]) -> str:
    tried = [reason for reasons in results.values() for reason in reasons.values() if reason != "-"]
    whole = sum(
        not any(r not in ("", "-") for r in reasons.values()) for reasons in results.values()
    )
    return f"{whole} of {len(results)} forms work in every step; {tried.count('')} of {len(tried)} steps"


def run_table(names: Sequence[str]) -> None:
    results: dict[tuple[str, str], Reasons] = {}
    with tempfile.TemporaryDirectory() as scratch:
        model = save_tiny_policy(Path(scratch) / "model")
        for case, form in cells():
            if names and case.record not in names:
                continue
            start = time.monotonic()
            folder = Path(scratch) / f"{case.record}-{form}"
            folder.mkdir()
            games = make_games(Path(scratch) / "games") if case.record == "alfred" else None
            results[case.record, form] = reasons = use(case, form, folder, model, games=games)
            first = next((f"{s}: {r}" for s, r in reasons.items() if r not in ("", "-")), "")
            seconds = time.monotonic() - start
            print(
                f"{case.record} {form} {seconds:.1f} s {first[:200]}", file=sys.stderr, flush=True
            )
    print("\n".join(table(results)))
    print(f"\n{tell(results)}.")


if __name__ == "__main__":
    run_table(sys.argv[1:])
