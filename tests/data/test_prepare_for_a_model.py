"""`vlrft data prepare --model`: rows whose prompts are too long for a model are listed and left out, without its weights."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import Tiny
from vlrft.cli.main import main
from vlrft.cli.prompt_limit import PromptLimit, load_prompt_limit
from vlrft.config import PolicyConfig
from vlrft.config.load import task_config
from vlrft.data import Row
from vlrft.plugins.find import find_task
from vlrft.policy.load import load_policy
from vlrft.rollout.task import load_task
from vlrft.schema import Sample
from vlrft.schema.errors import ConfigError
from vlrft.testing.small_policies import noise_image
from vlrft.vision.video.frames import FrameRule

PROMPT = 'options.prompt="{question}"'
PREPARE = ["data", "prepare", "table", "--from", "raw", "options.answer=class", PROMPT]
PREPARE += ["--split", "train", "--out", "ready"]


@pytest.fixture(scope="module")
def weightless(tmp_path_factory: pytest.TempPathFactory, lora_base: Path) -> str:
    """A model without its weights."""
    folder = tmp_path_factory.mktemp("weightless") / "model"
    shutil.copytree(lora_base, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    return str(folder)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two short questions with a picture, one with a large picture, a long one, and one without an answer."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raw").mkdir()
    rows = []
    for k, (side, question) in enumerate(
        [(56, "Which?"), (280, "Which?"), (56, "7" * 400), (56, "Where?"), (56, "What?")]
    ):
        noise_image(side, side, k).save(tmp_path / "raw" / f"{k}.png")
        answer = None if k == 3 else "stop"
        rows.append({"image": f"{k}.png", "question": question, "label": answer})
    (tmp_path / "raw" / "train.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))


def defects() -> dict[str, str]:
    lines = Path("ready/train.defects.jsonl").read_text().splitlines()
    return {d["id"]: f"{d['reason']}: {d['detail']}" for d in map(json.loads, lines)}


def split_entry() -> dict[str, object]:
    entry: dict[str, object] = json.loads(Path("ready/manifest.json").read_text())["splits"][
        "train"
    ]
    return entry


def test_prompts_that_are_too_long_for_a_model_are_listed_and_left_out(
    weightless: str, lora_base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*PREPARE, "--model", weightless, "--max-prompt-tokens", "90"]) == 0
    output = capsys.readouterr().out
    assert "train: 2 rows" in output
    assert "2 left out: prompt too long (listed in ready/train.defects.jsonl)" in output
    found = defects()
    assert list(found) == ["train/1", "train/2", "train/3"]
    chat = load_policy(PolicyConfig(model=str(lora_base))).chat
    loaded = load_task(task_config("table", ["options.data=ready", PROMPT]), "train")
    assert [s.id for s in loaded.samples] == ["train/0", "train/4"]
    overhead = len(chat.render(loaded.samples[0].messages, loaded.samples[0].images).ids) - 4
    assert found["train/1"] == f"prompt too long: {overhead + 100} tokens (100 of images)"
    long, short = (len(chat.tokenizer(text).input_ids) for text in ("7" * 400, "Which?"))
    text = overhead + long - short + 1  # the picture is one token
    assert found["train/2"] == f"prompt too long: {text} tokens (without images)"
    assert split_entry()["prompts"] == {
        "model": weightless,
        "max_prompt_tokens": 90,
        "min_pixels": chat.resize and chat.resize.min_pixels,
        "max_pixels": chat.resize and chat.resize.max_pixels,
    }


def test_the_bound_of_pixels_is_that_of_the_run(weightless: str) -> None:
    settings = ["--model", weightless, "policy.min_pixels=784", "policy.max_pixels=15680"]
    assert main([*PREPARE, *settings, "--max-prompt-tokens", "90"]) == 0
    assert "train/1" not in defects()


def test_the_limit_is_that_of_a_run_by_default(weightless: str) -> None:
    assert main([*PREPARE, "--model", weightless]) == 0
    assert split_entry()["prompts"]["max_prompt_tokens"] == 4096  # type: ignore[index]
    assert list(defects()) == ["train/3"]


def test_no_prompt_is_measured_without_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(PREPARE) == 0
    assert list(defects()) == ["train/3"]
    assert "prompts" not in split_entry()
    assert main([*PREPARE, "--max-prompt-tokens", "90"]) == 2
    assert "--max-prompt-tokens: say with --model" in capsys.readouterr().err


def test_a_split_that_was_prepared_otherwise_is_not_taken_for_done(
    weightless: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(PREPARE) == 0
    counted = [*PREPARE, "--model", weightless]
    measured = [*counted, "--max-prompt-tokens", "90"]
    assert main(measured) == 2
    assert "the train split was prepared without --model" in capsys.readouterr().err
    assert main([*measured, "--overwrite"]) == 0
    assert main(measured) == 0
    assert "already prepared" in capsys.readouterr().out
    assert main([*counted, "--max-prompt-tokens", "80"]) == 2


def test_a_model_that_cannot_measure_is_one_line(
    tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny("qwen2").save(tmp_path / "text")
    capsys.readouterr()
    for model, problem in {
        "text": "train/0 has a picture, whose tokens cannot be counted",
        "./nowhere": "policy.model=./nowhere: no such folder",
        "raw": "policy.model=raw: no config.json in this folder",
    }.items():
        assert main([*PREPARE, "--model", model]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert problem in line
    assert main(["data", "show", "table", "--model", "text", "options.answer=class"]) == 2


def test_an_interrupted_call_is_not_finished_with_another_limit(
    weightless: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    counted = [*PREPARE, "--model", weightless]
    measured = [*counted, "--max-prompt-tokens", "90"]
    find = PromptLimit.find_problem

    def interrupt(limit: PromptLimit, row: Row, sample: Sample) -> str | None:
        if row.id == "train/2":
            raise KeyboardInterrupt
        return find(limit, row, sample)

    with monkeypatch.context() as patch:
        patch.setattr(PromptLimit, "find_problem", interrupt)
        assert main(measured) == 130
    capsys.readouterr()
    for other in (PREPARE, [*measured, "policy.max_pixels=15680"]):
        assert main(other) == 2
        assert "an interrupted call has begun this split" in capsys.readouterr().err
    assert main(measured) == 0
    assert "train: 2 rows, 2 of them by an earlier call" in capsys.readouterr().out


def test_a_run_and_a_checkpoint_with_an_adapter_measure_as_their_model(
    weightless: str, lora_checkpoint: Path
) -> None:
    limit = ["--max-prompt-tokens", "90"]
    assert main([*PREPARE, "--model", str(lora_checkpoint), *limit]) == 0
    found = defects()
    assert main([*PREPARE, "--model", weightless, *limit, "--overwrite"]) == 0
    assert "train/1" in found
    assert defects() == found


def test_a_task_with_an_environment_is_refused() -> None:
    task = replace(find_task("table"), env=find_task("gridworld").env)
    with pytest.raises(ConfigError, match="prompts of task table grow in its environment"):
        load_prompt_limit(task, PolicyConfig(model="model"), None, FrameRule())
