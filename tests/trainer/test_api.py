"""The Python API, as somebody calls it who has read only its docstrings."""

from __future__ import annotations

import io
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from PIL import Image
from transformers.utils import logging

import vlrft
from vlrft.config.load import load_config
from vlrft.policy.policy import Policy
from vlrft.trainer.api.configs import override_texts, read_config

TREE: dict[str, Any] = {
    "task": {"name": "digits", "options": {"subtasks": ["count"]}},
    "policy": {
        "build": {
            "hidden_size": 32,
            "layers": 1,
            "heads": 4,
            "kv_heads": 2,
            "intermediate_size": 32,
            "vision_width": 32,
            "vision_layers": 1,
        }
    },
    "rollout": {"group_size": 2, "max_tokens": 4},
    "stages": [{"algorithm": "sft", "steps": 1, "prompts_per_step": 2}],
    "eval": {"limit": 2},
}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> vlrft.RunResult:
    """A run of one step, from a mapping, with transformers' progress bars on, which other tests may have put out."""
    logging.enable_progress_bar()
    folder = tmp_path_factory.mktemp("runs") / "first"
    return vlrft.train(TREE, out=str(folder), overrides={"seed": 3, "eval.limit": 1})


@pytest.fixture(scope="module")
def policy(result: vlrft.RunResult) -> Policy:
    return vlrft.load_policy(result, device="cpu")


def test_a_run_from_a_mapping_gives_its_folder_checkpoint_metrics_and_history(
    result: vlrft.RunResult,
) -> None:
    config = load_config(result.folder / "config.yaml")
    assert (config.seed, config.eval.limit) == (3, 1)
    assert result.checkpoint == result.folder / "checkpoints" / "step_1"
    assert [row["stage"] for row in result.history] == ["sft"]
    assert list(result.metrics) == ["count"]
    assert [e["step"] for e in result.evaluations] == [0, 1]
    assert logging.is_progress_bar_enabled()  # as it was before the call


def test_a_config_may_be_a_name_a_path_a_mapping_or_an_object(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("{task: digits, policy: {build: {}}, stages: [{steps: 1}]}")
    tree = {"task": "digits", "policy": {"build": {}}, "stages": [{"steps": 1}]}
    assert read_config(path) == read_config(str(path)) == read_config(tree)
    assert read_config("quickstart") == load_config("quickstart")
    config = read_config(tree)
    assert read_config(config) is config
    assert read_config(config, {"seed": 7}).seed == 7
    with pytest.raises(vlrft.ConfigError, match=r"set stages.gpg.rollout.group_size=3"):
        read_config(config, {"rollout.group_size": 3})  # its stages have their own by now
    assert override_texts({"a.b": Path("x y"), "c": (1, None), "d": True}) == [
        "a.b=x y",
        "c=[1, null]",
        "d=true",
    ]


WRONG_CALLS: dict[str, tuple[Callable[[], object], str]] = {
    "no folder": (lambda: vlrft.train(TREE), "out: give the run's folder"),
    "a key": (lambda: vlrft.train(TREE, out="x", overrides={"sed": 1}), "did you mean seed"),
    "one text": (lambda: vlrft.train(TREE, out="x", overrides="seed=1"), "overrides: give a list"),
    "a value": (lambda: vlrft.train(TREE, out="x", overrides={"seed": {1}}), "seed: set; allowed"),
    "a name": (lambda: vlrft.train("quickstrat", out="x"), "quickstrat"),
    "a model": (lambda: vlrft.load_policy("./none"), "policy.model=./none: no such folder"),
    "a setting": (lambda: vlrft.load_policy("./none", dtyp="float32"), "dtyp: unknown key"),
    "a grader's rows": (lambda: vlrft.score("digits", [{"id": 1}]), "--output-key"),
    "no rows": (lambda: vlrft.score("digits", []), "predictions: no rows"),
    "no outputs": (
        lambda: vlrft.score("digits", cast(Any, None)),
        "predictions: NoneType; allowed",
    ),
    "texts": (
        lambda: vlrft.score("digits", cast(Any, ["7"])),
        "an item is '7', not a row; allowed",
    ),
}


@pytest.mark.parametrize("case", WRONG_CALLS)
def test_a_wrong_call_is_an_error_of_vlrft_before_anything_is_done(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, line = WRONG_CALLS[case]
    monkeypatch.chdir(tmp_path)
    handlers = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with pytest.raises(vlrft.VlrftError, match=line):
        call()
    assert list(tmp_path.iterdir()) == []
    assert handlers == [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]


def test_one_picture_and_one_question_in_every_form_give_the_same_answer(
    policy: Policy, tmp_path: Path
) -> None:
    picture = Image.new("RGB", (56, 56), "white")
    picture.paste("black", (10, 10, 30, 30))
    file = io.BytesIO()
    picture.save(file, "PNG")
    path = tmp_path / "digit.png"
    path.write_bytes(file.getvalue())
    answers = {
        vlrft.generate(policy, "How many?", image, max_tokens=6)
        for image in (picture, [picture], str(path), path, file.getvalue())
    }
    assert len(answers) == 1
    slot = vlrft.generate(policy, "<image>How many?", picture, max_tokens=6)
    assert answers == {slot}
    part = {"type": "image", "image": str(path)}
    messages = [{"role": "user", "content": [part, {"type": "text", "text": "How many?"}]}]
    assert answers == {vlrft.generate(policy, messages, max_tokens=6)}
    with pytest.raises(vlrft.ConfigError, match="give the pictures in them"):
        vlrft.generate(policy, messages, path)
    sampled = [
        vlrft.generate(policy, "How many?", path, max_tokens=6, temperature=1.0, seed=seed)
        for seed in (1, 1, 2)
    ]
    assert sampled[0] == sampled[1] != sampled[2]
    assert vlrft.generate(policy, "No picture.", max_tokens=1, system="Be brief.") is not None


def test_a_picture_that_cannot_be_used_is_an_error(policy: Policy, tmp_path: Path) -> None:
    text = tmp_path / "text.png"
    text.write_text("no picture")
    with pytest.raises(vlrft.DataError, match=r"text\.png cannot be read"):
        vlrft.generate(policy, "?", text)
    with pytest.raises(vlrft.DataError, match=r"none\.png: cannot be read \(No such file"):
        vlrft.generate(policy, "?", tmp_path / "none.png")
    with pytest.raises(vlrft.DataError, match="2 times <image>, but 1 pictures"):
        vlrft.generate(policy, "<image> or <image>?", Image.new("RGB", (56, 56)))
    with pytest.raises(vlrft.ConfigError, match="max_tokens"):
        vlrft.generate(policy, "?", max_tokens=0)
    with pytest.raises(
        vlrft.DataError, match="a PIL image, a path or the bytes of a file, not int"
    ):
        vlrft.generate(policy, "?", 3)  # type: ignore[arg-type]


def test_a_name_in_place_of_a_policy_and_a_limit_of_zero_are_errors_of_vlrft(
    policy: Policy,
) -> None:
    with pytest.raises(vlrft.ConfigError, match="load_policy"):
        vlrft.generate("runs/mine", "?")  # type: ignore[arg-type]
    with pytest.raises(vlrft.ConfigError, match=r"eval\.limit: 0 is out of range"):
        vlrft.evaluate(policy, "digits", limit=0)


def test_an_evaluation_of_a_run_and_of_a_loaded_policy_are_the_same(
    result: vlrft.RunResult, policy: Policy, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"options.subtasks": ["count"], "rollout.max_tokens": 4}
    loaded = vlrft.evaluate(policy, "digits", limit=2, overrides=options)
    assert "2 of 2 answers" in capsys.readouterr().err
    of_run = vlrft.evaluate(result.folder, "digits", limit=2, overrides=options, progress=False)
    of_config = vlrft.evaluate(policy, load_config(result.folder / "config.yaml"), limit=2)
    assert [r.output for r in loaded.records] == [r.output for r in of_run.records]
    assert [r.output for r in loaded.records] == [r.output for r in of_config.records]
    assert loaded.scores["count"].n == 2


def test_outputs_are_scored_from_a_file_rows_and_a_mapping(tmp_path: Path) -> None:
    row = '{"id": "digits/1", "output": "<answer>7</answer>", "answer": "7", "tags": {"kind": "classify"}}\n'
    path = tmp_path / "outputs.jsonl"
    path.write_text(row)
    from_file = vlrft.score("digits", path)
    rows = [
        {
            "id": "digits/1",
            "output": "<answer>7</answer>",
            "answer": "7",
            "tags": {"kind": "classify"},
        }
    ]
    assert vlrft.score("digits", rows) == from_file
    assert [value.correct for value in from_file.scores.values()] == [1]
    with pytest.raises(vlrft.VlrftError, match="no gold answer for each output"):
        vlrft.score("counting", {"1": "<answer>7</answer>"}, progress=False)
    with pytest.raises(vlrft.VlrftError, match="no sample 'nowhere' in the data"):
        vlrft.score("digits", {"nowhere": "<answer>7</answer>"}, progress=False)
