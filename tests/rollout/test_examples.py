"""In-context examples: questions with answers and pictures before each question."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from tests.fixtures.makers._pictures import encode, things
from tests.fixtures.makers._tables import write_parquet
from tests.fixtures.makers.sat import sat_row
from vlrft.config import TaskConfig
from vlrft.config.task import ExamplesConfig
from vlrft.data import LazySamples, RowSamples
from vlrft.policy.load import load_policy
from vlrft.policy.packing import PackItem
from vlrft.rollout.engines import Sampling
from vlrft.rollout.examples import with_examples
from vlrft.rollout.play import play
from vlrft.rollout.task import LoadedTask, load_task
from vlrft.schema import IMAGE, Message, Sample, Task
from vlrft.schema.errors import ConfigError
from vlrft.testing.packed_equality import assert_packed_equals_replicated
from vlrft.testing.scripted_engine import ScriptedEngine
from vlrft.testing.small_policies import CORPUS, noise_image, tiny_config


@dataclass(frozen=True)
class Options:
    data: str | None = None


def load(split: str, options: Options) -> list[Sample]:
    """Questions after a system message with a picture, each about a picture of its own."""
    pictures = [noise_image(56, 56, k) for k in range(4)]
    opening = Message(role="system", content=(IMAGE, "Be brief."))
    return [
        Sample(
            id=f"{split}/{k}",
            messages=(opening, Message(role="user", content=(f"Q{k}", IMAGE))),
            images=(noise_image(28, 28, 9), pictures[k]),
            answer=str(k),
        )
        for k in range(4)
    ]


TASK = Task(
    name="asks",
    doc="",
    options=Options,
    splits=("train", "test"),
    load=load,
    rewards={"choice": 1.0},
    graders={"strict": ("choice",)},
    gold=lambda sample: f"<answer>{sample.answer}</answer>",
)


def shown(config: ExamplesConfig) -> list[Sample]:
    return list(
        with_examples(TASK, load("train", Options()), config, lambda split: load(split, Options()))
    )


def test_each_question_comes_after_the_same_examples_of_which_it_is_none() -> None:
    samples = shown(ExamplesConfig(count=2, seed=1))
    drawn = {
        name for s in samples for name in (str(m.content[0]) for m in s.shown_messages[1:-1:2])
    }
    for k, sample in enumerate(samples):
        system, *examples, question = sample.shown_messages
        assert (system.role, question.content) == ("system", (f"Q{k}", IMAGE))
        assert [m.role for m in examples] == ["user", "assistant"] * 2
        asked = [str(m.content[0]) for m in examples[::2]]
        assert f"Q{k}" not in asked
        assert len(set(asked)) == 2
        assert [m.content for m in examples[1::2]] == [(f"<answer>{q[1]}</answer>",) for q in asked]
        own = [load("train", Options())[int(q[1])].images[1] for q in asked]
        assert [i.tobytes() for i in sample.shown_images] == [
            i.tobytes() for i in (sample.images[0], *own, sample.images[1])
        ]
    assert len(drawn) == 3
    assert [s.id for s in shown(ExamplesConfig(count=2, seed=1))] == [s.id for s in samples]


def test_without_examples_samples_are_the_very_same() -> None:
    samples = load("train", Options())
    assert with_examples(TASK, samples, ExamplesConfig(), lambda split: []) is samples
    assert samples[0].shown_messages is samples[0].messages
    assert samples[0].shown_images is samples[0].images


def test_examples_of_another_split_and_samples_that_are_made_when_read() -> None:
    test = LazySamples(load("test", Options()).__getitem__, range(4))
    config = ExamplesConfig(count=1)
    sample = with_examples(TASK, test, config, lambda split: load(split, Options()))[2]
    assert sample.id == "test/2"
    assert len(sample.examples) == 1


@pytest.mark.parametrize(
    ("changed", "config", "problem"),
    [
        ({}, ExamplesConfig(count=4), "has 4 samples, and needs 5"),
        ({}, ExamplesConfig(count=1, split="dev"), "no split 'dev'; it has train, test"),
        ({"env": lambda sample: None}, ExamplesConfig(count=1), "plays in an environment"),
    ],
)
def test_what_cannot_have_examples_is_refused(
    changed: dict[str, object], config: ExamplesConfig, problem: str
) -> None:
    task = replace(TASK, **changed)  # type: ignore[arg-type]
    samples = load("train", Options())
    with pytest.raises(ConfigError, match=problem):
        with_examples(task, samples, config, lambda split: samples)


def sat(folder: Path, split: str = "train", **settings: object) -> LoadedTask:
    options = {"data": str(folder), "images": "any"} | settings.pop("options", {})  # type: ignore[operator]
    return load_task(TaskConfig(name="sat", options=options, **settings), split)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def two_pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SAT's rows of which each has two pictures."""
    folder = tmp_path_factory.mktemp("sat")
    rows = [
        sat_row(b"", f"How did camera {k} move?", ["left", "right"])
        | {"image_bytes": [encode(things(k + 2, k)), encode(things(k + 1, k))]}
        for k in range(3)
    ]
    write_parquet(folder / "SAT_train.parquet", rows)
    return folder


def test_plain_prompts_have_no_turns_for_examples(two_pictures: Path) -> None:
    with pytest.raises(ConfigError, match="are plain text, which has no turns"):
        sat(two_pictures, examples=ExamplesConfig(count=1), options={"form": "base"})


def test_two_pictures_are_trained_on_after_an_example_of_two(
    two_pictures: Path,
) -> None:
    """SAT's questions about two pictures: each group's log-probs and gradients are those of transformers."""
    loaded = sat(two_pictures, examples=ExamplesConfig(count=1))
    assert isinstance(loaded.samples, RowSamples)
    policy = load_policy(tiny_config("qwen2_vl", dtype="float64"), corpus=CORPUS)
    samples = [loaded.samples[k] for k in range(2)]
    engine = ScriptedEngine(policy.chat, lambda request, seed: "A" if seed else "No")
    groups = play(loaded, samples, engine, policy.chat, Sampling(max_tokens=3), seeds=[(0, 1)] * 2)
    items = []
    for sample, group in zip(samples, groups, strict=True):
        rows = [rollout.rows[0] for rollout in group.rollouts]
        assert len(rows[0].prompt.images) == 4
        assert len(sample.images) == 2
        items.append(PackItem(prompt=rows[0].prompt, rows=tuple(row.pieces[0].ids for row in rows)))
    lengths = [len(row) for item in items for row in item.rows]
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    assert_packed_equals_replicated(policy, items, mask)
