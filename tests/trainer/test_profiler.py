"""`profile: true` measures where the time goes and changes nothing else."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
import torch

from tests.trainer.small_runs import TINY, assert_same_run, lines
from vlrft.config.load import load_config
from vlrft.trainer import profiler
from vlrft.trainer.profiler import StepProfiler, Trace, phase_table
from vlrft.trainer.train import train

PHASES = (
    *("rollout/render", "rollout/render/images", "rollout/prefill", "rollout/decode", "rollout/reward"),
    *("rollout/advantages", "update/batch", "update/forward", "update/loss", "update/backward"),
    *("update/optimiser", "metrics", "log"),
)  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same run without a profile and with one."""
    folder = tmp_path_factory.mktemp("profile")
    (folder / "tiny.yaml").write_text(TINY)
    (folder / "even.py").write_text("def even(completion, sample):\n    return len(completion) % 2")
    folders = []
    for name, value in (("plain", "false"), ("profiled", "true")):
        overrides = (f"task.rewards={{{folder / 'even.py'}:even: 1.0}}", "stages.1.steps=4", "rollout.max_tokens=6")  # fmt: skip
        config = load_config(str(folder / "tiny.yaml"), (*overrides, f"profile={value}"))
        folders.append(train(config, out=folder / name).folder)
    return folders[0], folders[1]


def test_a_profile_changes_nothing_that_is_computed(runs: tuple[Path, Path]) -> None:
    assert_same_run(*runs)
    assert [row["step"] for row in lines(runs[1] / "metrics.jsonl")] == list(range(1, 8))
    assert not list(runs[0].glob("profile*"))


def test_the_table_has_every_phase_and_its_shares_add_up_to_100(runs: tuple[Path, Path]) -> None:
    sft, gpg = (runs[1] / "profile.md").read_text().split("## ")[1:]
    assert "Steps 2 to 3: " in sft  # there are no later ones
    assert "Steps 7 alone: " in gpg
    tables = gpg.split("Steps 5 to 6, traced in `profile_gpg.json.gz`, by operator:")
    rows = dict(re.findall(r"^\| (\S+?) \| [\d.]+ \| ([\d.]+) % \|$", tables[0], re.MULTILINE))
    tops = {name: float(share) for name, share in rows.items() if name.startswith("**")}
    assert {p.split("/")[0] for p in PHASES} <= {name.strip("*") for name in tops}
    assert {p for p in PHASES if "/" in p} <= rows.keys()
    assert sum(tops.values()) == pytest.approx(100, abs=0.5)
    assert float(rows["rollout/decode"]) > 0
    assert re.search(r"\| aten::\S+ \| \d+ \| [\d.]+ \| [\d.]+ % \|", tables[1])  # of the costliest
    assert "profile.md" in (runs[1] / "report.html").read_text()
    assert "profile.md" not in (runs[0] / "report.html").read_text()


def test_evaluations_and_checkpoints_are_no_part_of_a_step(runs: tuple[Path, Path]) -> None:
    section = (runs[1] / "profile.md").read_text().split("## ")[2]
    others = r" In addition to the steps, in all: evaluation [\d.]+ s, save [\d.]+ s\.\n"
    assert re.search(r"Steps 7 alone: [\d.]+ s per step\." + others, section)
    assert not re.search(r"^\| \S*(evaluation|save)", section, re.MULTILINE)


def test_seconds_of_a_step_are_without_those_between_steps() -> None:
    seconds = {"update": 2.0, "update/self_check/forward": 70.0, "evaluation": 9.0, "save": 8.0}
    table = phase_table(seconds, [1])
    assert "2.000 s per step" in table
    assert "self_check 70.000 s, evaluation 9.000 s, save 8.000 s" in table


def test_the_trace_covers_the_second_and_third_step(runs: tuple[Path, Path]) -> None:
    with gzip.open(runs[1] / "profile_gpg.json.gz", "rt") as file:
        events = json.load(file)["traceEvents"]
    names = [e["name"] for e in events if e.get("cat") == "user_annotation"]
    assert names.count("phase: update/optimiser") == 2
    assert {f"phase: {p}" for p in PHASES if "/" in p} <= set(names)


def test_a_trace_that_is_long_enough_stops(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(profiler, "TRACE_SECONDS", 0.0)
    trace = Trace()
    trace.start()
    torch.ones(3).exp()
    with trace.mark("late"):
        torch.ones(3).log()
    trace.stop()
    trace.save(tmp_path / "cut.json.gz")
    assert "aten::exp" in trace.table()
    assert "aten::log" not in trace.table()
    assert trace.cut_short == " (their first 0 s)"


def test_a_stage_of_any_name_has_a_trace_in_the_runs_folder(tmp_path: Path) -> None:
    steps = StepProfiler(tmp_path)
    for stage in ("rl/warm up", "../" + "x" * 300):
        assert list(steps.over(stage, [1, 2])) == [1, 2]
    assert {p.name for p in tmp_path.iterdir()} == {
        *("profile.md", "profile_rl_warm_up.json.gz"),
        f"profile_.._{'x' * 97}.json.gz",
    }
