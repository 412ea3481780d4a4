"""GeoQA: its raw forms, its prompts word for word, and the published score."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.fixtures.makers.geoqa import TEST, make
from tests.fixtures.qwen_tokenizer import (
    ASSISTANT,
    RELEASED_PIXELS,
    SYSTEM,
    USER,
    image_tokens,
    needs_qwen,
    render,
)
from tests.tasks.loaded import (
    SHARED,
    assert_gold_earns_all,
    assert_published_verdicts,
    assert_same,
    dataset_folder,
    load_samples,
    needs_shared,
    prepare,
)
from vlrft.cli.main import main
from vlrft.schema import DataError

QUESTION = (
    "As shown in the figure, DE parallel BC, angle A = 80.0, angle B = 60.0, then angle CED is ()"
)
data = dataset_folder(make)


@needs_qwen
def test_released_prompts_word_for_word(data: Path) -> None:
    train = load_samples("geoqa", "train", data / "hub", prompt="released")[0]
    assert render(train) == (
        f"{SYSTEM}{USER}{QUESTION}  Output the thinking process in <think> </think> and final answer "
        f"(number) in <answer> </answer> tags.{ASSISTANT}"
    )
    test = load_samples("geoqa", "test", data / "raw", prompt="released")[0]
    assert render(test) == (
        f"{SYSTEM}{USER}{TEST[0][0]} Output the thinking process in <think> </think> and final answer "
        f"(number) in <answer> </answer> tags.{ASSISTANT}"
    )


@needs_qwen
def test_the_clean_prompt_is_the_same_in_training_and_test(data: Path) -> None:
    train = load_samples("geoqa", "train", data / "hub")[0]
    test = load_samples("geoqa", "test", data / "raw")[0]
    tail = (
        "\nThink first, between <think> and </think>. Then give the final answer, with its unit "
        f"where it has one, between <answer> and </answer>.{ASSISTANT}"
    )
    assert render(train) == f"{SYSTEM}{USER}{QUESTION}{tail}"
    assert render(test) == f"{SYSTEM}{USER}{TEST[0][0]}{tail}"


@needs_qwen
def test_image_tokens_with_the_bound_of_the_processor_and_the_released_one(data: Path) -> None:
    samples = load_samples("geoqa", "train", data / "hub")
    assert [image_tokens(s) for s in samples] == [8 * 6, 7 * 7, 8 * 6, 7 * 7, 46 * 30]
    # sqrt(401408 / (1280 x 854)) = 0.606 leaves 775 x 517 pixels: 27 x 18 tokens
    assert [image_tokens(s, RELEASED_PIXELS) for s in samples[3:]] == [7 * 7, 27 * 18]


def test_gold_answers_earn_full_marks(data: Path) -> None:
    assert_gold_earns_all("geoqa", load_samples("geoqa", "train", data / "hub"))
    assert_gold_earns_all("geoqa", load_samples("geoqa", "test", data / "raw"))


def test_a_prepared_folder_has_the_same_samples(data: Path, tmp_path: Path) -> None:
    for raw, split in (("hub", "train"), ("raw", "test"), ("images.zip", "test")):
        assert prepare("geoqa", data / raw, tmp_path / raw) == {split: {}}
        for prompt in ("clean", "released"):
            assert_same(
                load_samples("geoqa", split, data / raw, prompt=prompt),
                load_samples("geoqa", split, tmp_path / raw, prompt=prompt),
            )


def test_pictures_are_upright_and_on_white(data: Path) -> None:
    samples = load_samples("geoqa", "test", data / "raw")
    assert [s.images[0].size for s in samples] == [(224, 168), (196, 196), (224, 168)]
    assert {s.images[0].getpixel((0, 0)) for s in samples} == {(255, 255, 255)}


def test_a_bare_file_name_is_found_in_the_folder_of_the_split(data: Path, tmp_path: Path) -> None:
    shutil.copytree(data / "raw/Geo170K", tmp_path / "Geo170K")
    bare = [
        json.dumps({"id": k, "image_path": f"{k}.png", "question": q, "ground_truth": gold})
        for k, (q, gold) in enumerate(TEST)
    ]
    (tmp_path / "test.jsonl").write_text("\n".join(bare), encoding="utf-8")
    samples = load_samples("geoqa", "test", tmp_path)
    assert [s.images[0].size for s in samples] == [(224, 168), (196, 196), (224, 168)]
    (tmp_path / "Geo170K/images/test").rename(tmp_path / "Geo170K/images/other")
    with pytest.raises(DataError, match=r"0\.png may be .*geoqa_plus/0\.png or .*other/0\.png"):
        load_samples("geoqa", "test", tmp_path)
    partly = "\n".join(bare).replace('"image_path": "', '"image_path": "/their/images/other/')
    (tmp_path / "test.jsonl").write_text(partly, encoding="utf-8")
    samples = load_samples("geoqa", "test", tmp_path)
    assert [s.images[0].size for s in samples] == [(224, 168), (196, 196), (224, 168)]


def test_the_train_split_next_to_the_test_prompts_is_the_train_table(
    data: Path, tmp_path: Path
) -> None:
    shutil.copytree(data / "hub", tmp_path, dirs_exist_ok=True)
    shutil.copytree(data / "raw", tmp_path, dirs_exist_ok=True)
    for split, alone in (("train", "hub"), ("test", "raw")):
        assert_same(
            load_samples("geoqa", split, tmp_path), load_samples("geoqa", split, data / alone)
        )


def test_rows_that_cannot_be_used_are_listed_or_stop_the_loading(
    data: Path, tmp_path: Path
) -> None:
    defects = prepare("geoqa", data / "broken", tmp_path / "out")
    assert defects["train"] == {
        "train/1": "image missing or unreadable",
        "train/2": "empty question",
        "train/3": "gold answer unreadable",
        "train/4": "gold answer unreadable",
        "train/5": "incomplete row",
    }
    assert len(load_samples("geoqa", "train", tmp_path / "out")) == 1
    with pytest.raises(DataError, match="1 of 6 rows of the train split cannot be used"):
        load_samples("geoqa", "train", data / "broken")


@needs_shared
def test_the_official_grader_agrees_with_each_published_verdict() -> None:
    path = "geoqa/published_outputs_qwen2vl7b_grpo.jsonl"
    assert_published_verdicts(path, "math_answer.r1v_eval", 292, 754)


@needs_shared
def test_published_outputs_are_scored_without_pictures(capsys: pytest.CaptureFixture[str]) -> None:
    outputs = SHARED / "geoqa/published_outputs_qwen2vl7b_grpo.jsonl"
    assert main(["score", "geoqa", "--predictions", str(outputs)]) == 0
    alone = capsys.readouterr().out
    data = SHARED / "geoqa/geoqa_test_754.jsonl"
    assert main(["score", "geoqa", "--predictions", str(outputs), "--data", str(data)]) == 0
    assert capsys.readouterr().out == alone
    assert "292/754  38.73 [" in alone


@needs_shared
def test_every_gold_answer_of_the_test_is_readable() -> None:
    """The released grader cannot read 17 of them, and misreads 60."""
    data = SHARED / "geoqa/geoqa_test_754.jsonl"
    from vlrft.data import RowSamples

    samples = load_samples("geoqa", "test", data)
    assert isinstance(samples, RowSamples)
    assert_gold_earns_all("geoqa", list(samples.without_images()))
