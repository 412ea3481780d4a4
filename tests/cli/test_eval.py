"""vlrft eval: both graders, several answers, and continuing an interrupted evaluation."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import vlrft.trainer.api.evaluate as parts
from tests.conftest import Tiny
from vlrft.cli.main import main
from vlrft.config import RolloutConfig
from vlrft.config.load import equals_sections
from vlrft.data.writer_lock import lock
from vlrft.evaluation.evaluate import grade_samples
from vlrft.reporting.run_folder.mark import write_mark
from vlrft.schema import Record


@pytest.fixture
def model(tiny: Tiny, tmp_path: Path) -> str:
    tiny("qwen2_vl").save(tmp_path / "model")
    return str(tmp_path / "model")


Evaluate = Callable[..., int]


@pytest.fixture
def evaluate(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Evaluate:
    monkeypatch.setattr("vlrft.trainer.api.evaluate.chunk_size", lambda rollout, decoding: 2)

    def run(name: str, *rest: str, tokens: int = 6, model: str = model) -> int:
        out = str(tmp_path / f"{name}.json")
        short = ["--limit", "5", f"rollout.max_tokens={tokens}", "options.subtasks=[count]"]
        return main(["eval", "--model", model, "--task", "digits", "--json", out, *short, *rest])

    return run


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


class Stopped(KeyboardInterrupt):
    pass


def stop_after(chunks: int) -> Callable[..., Iterator[list[Record]]]:
    def some(*args: Any, **options: Any) -> Iterator[list[Record]]:
        for number, chunk in enumerate(grade_samples(*args, **options)):
            if number == chunks:
                raise Stopped
            yield chunk

    return some


def stop(*_: object) -> None:
    raise Stopped


SAMPLED = ("eval.answers=2", "eval.temperature=1.0")


@pytest.mark.parametrize("decoding", [(), SAMPLED], ids=["greedy", "sampled"])
def test_an_interrupted_evaluation_resumes_with_equal_results(
    evaluate: Evaluate,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    decoding: Sequence[str],
) -> None:
    assert evaluate("whole", *decoding) == 0
    with monkeypatch.context() as patch:
        patch.setattr(parts, "grade_samples", stop_after(1))
        capsys.readouterr()
        assert evaluate("two", *decoding) == 130
    records = tmp_path / "two.records.jsonl"
    assert f"stopped; {records} has the answers so far" in capsys.readouterr().err
    each = len(decoding) or 1
    assert len(rows(records)) == 2 * each
    incomplete = (
        records.read_text().splitlines()[0] + "\n" if each == 2 else ""
    )  # one answer of two
    with records.open("a") as file:
        file.write(f'{incomplete}{{"id": "unfini')
    capsys.readouterr()
    assert evaluate("two", *decoding) == 0
    assert f"resuming, {2 * each} answers already done" in capsys.readouterr().err
    whole = rows(tmp_path / "whole.records.jsonl")
    assert rows(records) == whole
    assert len(whole) == 5 * each
    one, other = (json.loads((tmp_path / f"{n}.json").read_text()) for n in ("whole", "two"))
    assert one["strict"] == other["strict"]
    if each == 2:
        pairs = [{r["output"] for r in whole[k : k + 2]} for k in range(0, 10, 2)]
        assert any(len(pair) == 2 for pair in pairs)


def test_other_settings_cannot_resume_and_a_finished_evaluation_is_kept(
    evaluate: Evaluate,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(parts, "grade_samples", stop_after(1))
        assert evaluate("out") == 130
    assert evaluate("out", tokens=7) == 2
    assert "was started with other settings" in capsys.readouterr().err
    page = tmp_path / "out.html"
    assert evaluate("out", "--overwrite", "--html", str(page), tokens=7) == 0
    assert page.read_text().count("data:image/png;base64,") == 5  # a card for each answer
    assert len(rows(tmp_path / "out.records.jsonl")) == 5
    assert evaluate("out") == 2
    results = json.loads((tmp_path / "out.json").read_text())
    assert (results["n"], results["strict"]["n"]) == (5, 5)
    assert set(results["strict"]["metrics"]) == {"count"}


def test_an_interrupted_evaluation_that_overwrites_continues_as_its_message_says(
    evaluate: Evaluate,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = ("--html", str(tmp_path / "out.html"))
    assert evaluate("out", *page) == 0
    before = {p.name: p.read_bytes() for p in tmp_path.glob("out*")}
    with monkeypatch.context() as patch:
        patch.setattr(parts, "load_task", stop)
        assert evaluate("out", *page, "--overwrite") == 130
    assert capsys.readouterr().err.endswith("stopped; nothing was replaced yet\n")
    assert {p.name: p.read_bytes() for p in tmp_path.glob("out*")} == before
    with monkeypatch.context() as patch:
        patch.setattr(parts, "grade_samples", stop_after(1))
        capsys.readouterr()
        assert evaluate("out", *page, "--overwrite") == 130
    said = "has the answers so far, and the same command without --overwrite continues\n"
    assert capsys.readouterr().err.endswith(said)
    assert not (tmp_path / "out.json").exists()  # of the answers that were replaced
    assert evaluate("out", *page) == 0
    assert "resuming, 2 answers already done" in capsys.readouterr().err
    assert len(rows(tmp_path / "out.records.jsonl")) == 5


def test_an_evaluation_that_an_earlier_version_started_resumes(
    evaluate: Evaluate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(parts, "grade_samples", stop_after(1))
        assert evaluate("out") == 130
    settings = tmp_path / "out.settings.yaml"
    text = settings.read_text()
    assert "  engine: hf\n" in text
    settings.write_text(text.replace("  engine: hf\n", ""))  # a key that it did not have
    assert evaluate("out") == 0
    assert settings.read_text() == text
    assert len(rows(tmp_path / "out.records.jsonl")) == 5


def test_an_evaluation_resumes_with_the_data_that_it_was_started_with_alone(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = tmp_path / "d.jsonl", tmp_path / "out.json"
    monkeypatch.setattr("vlrft.trainer.api.evaluate.chunk_size", lambda rollout, decoding: 2)

    def write(questions: Sequence[str]) -> None:
        lines = [{"id": str(k), "question": q, "answer": "2"} for k, q in enumerate(questions)]
        data.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def evaluate(*flags: str) -> int:
        words = ["eval", "--model", model, "--task", "table", "--split", "train", *flags]
        return main(
            [
                *words,
                "--json",
                str(out),
                f"options.data={data}",
                "options.answer=math",
                "rollout.max_tokens=4",
            ]
        )

    write(["1+1?", "4-2?", "2+0?"])
    with monkeypatch.context() as patch:
        patch.setattr(parts, "grade_samples", stop_after(1))
        assert evaluate() == 130
    before = {p.name: p.read_bytes() for p in tmp_path.glob("out*")}
    for questions, problem in (
        (["1+1?", "4-2?"], "it was of 3 samples"),
        (["1 + 1 = ?", "4-2?", "2+0?"], "other data"),
    ):
        write(questions)
        capsys.readouterr()
        assert evaluate() == 2
        line = capsys.readouterr().err.splitlines()[-1]
        assert f"{tmp_path / 'out.records.jsonl'} was started with other data" in line
        assert problem in line
        assert "use --overwrite or another --json" in line
        assert {p.name: p.read_bytes() for p in tmp_path.glob("out*")} == before
    write(["1+1?", "4-2?", "2+0?"])
    assert evaluate() == 0
    assert [row["id"] for row in rows(tmp_path / "out.records.jsonl")] == ["0", "1", "2"]


def test_an_evaluation_of_a_run_resumes_with_the_checkpoint_that_it_was_started_with_alone(
    evaluate: Evaluate,
    model: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The newest checkpoint of a run that goes on is another one later."""
    last = tmp_path / "run" / "checkpoints" / "last"
    last.parent.mkdir(parents=True)
    write_mark(tmp_path / "run")
    for step in (1, 2):
        shutil.copytree(model, last.with_name(f"step_{step}"))
    last.symlink_to("step_1")
    for k, name in enumerate((tmp_path / "run", last)):
        with monkeypatch.context() as patch:
            patch.setattr(parts, "grade_samples", stop_after(1))
            assert evaluate(f"out{k}", model=str(name)) == 130
        last.unlink()
        last.symlink_to(f"step_{2 - k}")
        capsys.readouterr()
        assert evaluate(f"out{k}", model=str(name)) == 2
        assert "was started with other settings" in capsys.readouterr().err


def test_files_of_others_and_of_a_live_evaluation_are_not_written(
    evaluate: Evaluate, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings, records = tmp_path / "out.settings.yaml", tmp_path / "out.records.jsonl"
    for file, content in ((settings, "lr: 3"), (records, '{"id": 1, "song": "a"}\n')):
        file.write_text(content)
        for flags in ([], ["--overwrite"]):
            assert evaluate("out", *flags) == 2
            assert f"{file} exists, and vlrft did not write it" in capsys.readouterr().err
        assert file.read_text() == content
        file.unlink()
    with lock(tmp_path / ".out.vlrft-lock", "out.json"):
        assert evaluate("out") == 2
        assert "is being written by process" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["model"]
    (tmp_path / "dir.json").mkdir()
    assert evaluate("dir", "--overwrite") == 2
    assert evaluate("x" * 300) == 2
    assert "cannot be written (File name too long)" in capsys.readouterr().err


def test_the_records_of_a_finished_evaluation_outlive_one_that_cannot_begin(
    evaluate: Evaluate, tmp_path: Path
) -> None:
    assert evaluate("out") == 0
    before = {p.name: p.read_bytes() for p in tmp_path.glob("out*")}
    assert evaluate("out", "--overwrite", "--split", "nowhere") != 0
    assert evaluate("out", "--overwrite", "policy.attention=odd") != 0
    assert evaluate("out", "--overwrite", model=str(tmp_path / "no_model")) != 0
    assert {p.name: p.read_bytes() for p in tmp_path.glob("out*")} == before


@pytest.mark.parametrize("text", ["", "rollout: [", "- 1", "rollout: {max_tokens: 0}", "other: {}"])
def test_damaged_settings_are_other_settings(text: str) -> None:
    assert not equals_sections(text, rollout=RolloutConfig())
    assert equals_sections("rollout: {max_tokens: 9}", rollout=RolloutConfig(max_tokens=9))


def test_a_config_gives_the_settings_of_an_evaluation(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(
        "task: {name: digits, options: {subtasks: [classify]}}\npolicy: {build: {family: qwen2_vl}}\n"
        "rollout: {max_tokens: 4}\nstages: [{steps: 1}]\neval: {split: validation, limit: 3}\n"
    )
    assert main(["eval", "--model", model, "--config", str(config)]) == 0
    shown = capsys.readouterr()
    assert "classify" in shown.out
    assert "/3" in shown.out
    with pytest.raises(SystemExit):
        main(["eval", "--model", model, "--config", str(config), "--task", "digits"])
