"""The facts that ranks compare: they change with everything that training depends on, and with nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conftest import Tiny
from vlrft.config import Config
from vlrft.distributed.ranks import Ranks
from vlrft.rollout.task import load_task
from vlrft.schema import Sample
from vlrft.schema.errors import ConfigError
from vlrft.testing.small_policies import ask, noise_image, sample
from vlrft.trainer.rank_facts import (
    code_facts,
    hash_of_samples,
    hash_of_sources,
    setting_facts,
    source_folders,
    task_facts,
    weight_facts,
)
from vlrft.trainer.train import train

Configs = Callable[..., Config]
ROOT = Path(__file__).parents[2]


def facts_of(config: Config, **changed: Any) -> dict[str, str]:
    arguments: dict[str, Any] = {"out": Path("run"), "resume": False, "overwrite": False}
    return dict(setting_facts(config, **{**arguments, **changed}))


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("stages.0.update.lr=1e-2", "stages.0.update.lr"),
        ("stages.1.rollout.temperature=5.0", "stages.1.rollout.temperature"),
        ("stages.0.steps=30", "stages.0.steps"),
        ("seed=3", "seed"),
        ("eval.limit=null", "eval.limit"),
        ("task.options.subtasks=[classify]", "task.options.subtasks.1"),
    ],
)
def test_every_setting_is_a_fact(config: Configs, override: str, key: str) -> None:
    one, other = facts_of(config()), facts_of(config(override))
    assert key in {k for k in one.keys() | other.keys() if one.get(k) != other.get(k)}


def test_the_arguments_of_the_command_are_facts(config: Configs) -> None:
    one, other = facts_of(config()), facts_of(config(), resume=True, out=Path("other"))
    assert {k for k in one if one[k] != other[k]} == {"--out", "--resume"}


def test_the_source_and_the_versions_are_facts(tmp_path: Path) -> None:
    assert [folder.name for folder in source_folders()] == ["vlrft", "rewards", "tasks"]
    facts = code_facts()
    assert facts["the version of torch"].startswith(torch.__version__.partition("+")[0])
    (tmp_path / "a.py").write_text("x = 1")
    before = hash_of_sources([tmp_path])
    (tmp_path / "data.txt").write_text("no code")
    assert hash_of_sources([tmp_path]) == before
    (tmp_path / "a.py").write_text("x = 2")
    assert hash_of_sources([tmp_path]) != before


def test_the_data_and_the_plugins_are_facts(config: Configs, tmp_path: Path) -> None:
    reward = tmp_path / "mine.py"
    reward.write_text("def even(completion, sample): return 1.0")
    stage = config(f"task.rewards={{{reward}:even: 1.0}}").stages[1]

    def facts() -> dict[str, str]:
        return dict(task_facts({"stage gpg": load_task(stage.task, "train")}))

    one = facts()
    assert set(one) >= {"the data of stage gpg (hash)", "the plugin mine.py (hash)"}
    assert one == facts()
    reward.write_text("def even(completion, sample): return 0.0")
    changed = facts()
    assert one["the plugin mine.py (hash)"] != changed["the plugin mine.py (hash)"]
    assert one["the data of stage gpg (hash)"] == changed["the data of stage gpg (hash)"]


def test_samples_count_by_number_text_answer_and_pictures() -> None:
    picture = noise_image(8, 8, 0)
    first = replace(sample("a", "7"), messages=ask("red?"), images=(picture,))
    samples = [first, sample("b", "8")]
    others: list[list[Sample]] = [
        [*samples, sample("c")],
        [replace(first, answer="8"), samples[1]],
        [replace(first, images=(noise_image(8, 8, 1),)), samples[1]],
        [replace(first, messages=ask("blue?")), samples[1]],
        samples[::-1],
    ]
    hashes = {hash_of_samples(samples), *map(hash_of_samples, others)}
    assert len(hashes) == 1 + len(others)
    assert hash_of_samples([]).startswith("0 samples")


def hash_of_odd_answers() -> str:
    """Of answers whose text differs from process to process."""
    answers = ({"a", "b", "c"}, object(), {(1, 2): 3}, float("nan"), b"x")
    return hash_of_samples(
        [Sample(id=str(k), messages=(), answer=answer) for k, answer in enumerate(answers)]
    )


def test_the_hash_of_an_answer_without_a_stable_text_is_the_same_in_every_process() -> None:
    script = f"from {__name__} import hash_of_odd_answers; print(hash_of_odd_answers())"
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    elsewhere = subprocess.check_output(
        [sys.executable, "-c", script], text=True, env=environment, cwd=ROOT
    )
    assert elsewhere.strip() == hash_of_odd_answers()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int8])
def test_a_weight_counts_by_its_bits_their_order_and_its_shape(dtype: torch.dtype) -> None:
    weight = torch.arange(12).to(dtype).reshape(3, 4)
    changed = weight.clone()
    changed[1, 2] += 1
    tensors = [weight, changed, weight.flip(0), weight.reshape(4, 3), weight[:0]]
    assert len({weight_facts([("w", t)])["the weight w"] for t in tensors}) == len(tensors)
    assert weight_facts([("w", weight.clone())]) == weight_facts([("w", weight)])


def test_the_weights_of_a_policy_are_facts(tiny: Tiny) -> None:
    facts = weight_facts(tiny("qwen2").model.named_parameters())
    assert "the weight model.embed_tokens.weight" in facts


class Elsewhere(Ranks):
    """Rank 0 of two, of which the other has another learning rate."""

    def gather(self, items: Sequence[Any]) -> list[list[Any]]:
        return [list(items), [{**facts, "stages.0.update.lr": "0.5"} for facts in items]]


def test_a_run_stops_before_it_writes_anything_where_the_ranks_disagree(
    config: Configs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def session(config: Config) -> Iterator[Ranks]:
        yield Elsewhere(size=2)

    monkeypatch.setattr("vlrft.trainer.train.rank_session", session)
    with pytest.raises(ConfigError, match=r"update.lr differs between ranks: 0.001 on rank 0; 0.5"):
        train(config(), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
