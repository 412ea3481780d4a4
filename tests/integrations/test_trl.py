"""TRL's trainer with our loss: it trains, its loss is `policy_loss`, its gradient does not depend on the micro-batch."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from tests.docs.howto.test_own_trainer import BLOCKS
from vlrft.algorithms import policy_loss
from vlrft.policy.load import load_policy
from vlrft.schema.errors import ConfigError
from vlrft.testing.small_policies import CORPUS, tiny_config
from vlrft.vision.processor import prepare_torchvision

prepare_torchvision()  # also in the ranks, which import this module without the fixtures of the suite
pytest.importorskip("trl")
pytestmark = pytest.mark.filterwarnings("default")  # other packages warn

from datasets import Dataset  # noqa: E402
from transformers import TrainerCallback  # noqa: E402
from trl import GRPOConfig  # noqa: E402

from vlrft.integrations.trl import VlrftGRPOTrainer  # noqa: E402

LENGTH, ANSWERS, GROUP = 6, 8, 4
Choice = str | Mapping[str, Any]


@pytest.fixture(scope="module", autouse=True)
def metadata_read_once() -> Iterator[None]:
    """accelerate asks for the metadata of packages at every step, and reads them anew."""
    with patch("importlib.metadata.metadata", cache(importlib.metadata.metadata)):
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny text model; a fifth of its vocabulary ends an answer, so that answers differ in length."""
    policy = load_policy(tiny_config("qwen2"), corpus=CORPUS, seed=0)
    model: Any = policy.model
    model.generation_config.eos_token_id = [*range(60), *model.generation_config.eos_token_id]
    path = tmp_path_factory.mktemp("tiny")
    model.save_pretrained(path)
    policy.chat.tokenizer.save_pretrained(path)
    return path


def parity(completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float]:
    return [float(sum(ids) % 2) for ids in completion_ids]


def size(completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float | None]:
    """Applies to answers of more than one token."""
    return [len(ids) / LENGTH if len(ids) > 1 else None for ids in completion_ids]


class Gradients(TrainerCallback):  # type: ignore[misc]
    """Keeps each optimiser step's gradient."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Tensor]] = []

    def on_pre_optimizer_step(self, *_: Any, model: Any, **__: Any) -> None:
        self.steps.append({n: p.grad.clone() for n, p in model.named_parameters()})


class Recorder(VlrftGRPOTrainer):
    """Keeps the inputs of each micro-batch's loss, by the index of the completion."""

    def __init__(self, **arguments: Any) -> None:
        self.recorded: dict[int, dict[str, Tensor]] = {}
        super().__init__(**arguments)

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        logprobs, _ = self._score(model, inputs)
        values = {"mask": inputs["completion_mask"].bool(), "logprobs": logprobs.detach()}
        for name in ("old_per_token_logps", "ref_per_token_logps"):
            if inputs.get(name) is not None:
                values[name[:3]] = inputs[name]
        for i, n in enumerate(inputs["row"].tolist()):
            self.recorded[n] = {name: value[i] for name, value in values.items()}
        return super()._compute_loss(model, inputs)

    def stack(self, name: str) -> Tensor:
        return torch.stack([self.recorded[n][name] for n in range(ANSWERS)])


def trained(
    folder: Path,
    out: Path,
    algorithm: Choice,
    *,
    accumulate: int = 1,
    ranks: int = 1,
    steps: int = 1,
    **more: Any,
) -> Recorder:
    """The trainer after its steps of SGD; two prompts, four answers each."""
    settings: dict[str, Any] = {
        "output_dir": str(out),
        "per_device_train_batch_size": ANSWERS // accumulate // ranks,
        "gradient_accumulation_steps": accumulate,
        "num_generations": GROUP,
        "max_completion_length": LENGTH,
        "max_steps": steps,
        "learning_rate": 0.5,
        "lr_scheduler_type": "constant",
        "optim": "sgd",
        "max_grad_norm": 0.0,
        "logging_steps": 1,
        "report_to": [],
        "save_strategy": "no",
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "disable_tqdm": True,
        "seed": 1,
        "reward_weights": [1.0, 0.5],
    }
    arguments: dict[str, Any] = {"reward_funcs": [parity, size]}
    for name in ("reward_funcs", "eval_dataset", "rollout_func"):
        if name in more:
            arguments[name] = more.pop(name)
    settings["reward_weights"] = settings["reward_weights"][: len(arguments["reward_funcs"])]
    gradients = Gradients()
    trainer = Recorder(
        algorithm=algorithm,
        model=str(folder),
        args=GRPOConfig(**settings | more),
        train_dataset=Dataset.from_list([{"prompt": f"How many {i}s"} for i in range(4)]),
        callbacks=[gradients],
        **arguments,
    )
    trainer.train()
    trainer.gradients = gradients.steps
    return trainer


def of_policy_loss(trainer: Recorder, algorithm: Choice) -> float:
    """The loss of the trainer's last step, by `policy_loss` over the recorded inputs."""
    choice = {"name": algorithm} if isinstance(algorithm, str) else dict(algorithm)
    scores = [[row[k] for row in trainer._scores] for k in range(2)]
    now = trainer.stack("logprobs")
    result = policy_loss(
        choice.pop("name"),
        logprobs=now,
        rewards=[p + 0.5 * (0.0 if s != s else s) for p, s in zip(*scores, strict=True)],
        group=[n // GROUP for n in range(ANSWERS)],
        mask=trainer.stack("mask"),
        old_logprobs=trainer.stack("old") if "old" in trainer.recorded[0] else now,
        ref_logprobs=trainer.stack("ref") if "ref" in trainer.recorded[0] else None,
        extras={
            "length": LENGTH,
            "scores": {"parity": scores[0], "size": scores[1]},
            "weights": {"parity": 1.0, "size": 0.5},
        },
        **choice,
    )
    return float(result.loss)


def weights(folder: Path) -> dict[str, Tensor]:
    from transformers import AutoModelForCausalLM

    return dict(AutoModelForCausalLM.from_pretrained(folder).named_parameters())


def logged(trainer: Recorder, name: str) -> list[float]:
    return [entry[name] for entry in trainer.state.log_history if name in entry]


@pytest.mark.parametrize("algorithm", ["gpg", "gmpo", "grpo"])
def test_three_steps_change_the_weights(folder: Path, tmp_path: Path, algorithm: str) -> None:
    trainer = trained(folder, tmp_path, algorithm, steps=3, accumulate=2)
    before = weights(folder)
    after = dict(trainer.model.named_parameters())
    assert all(bool(torch.isfinite(p).all()) for p in after.values())
    changed = [n for n in before if not torch.equal(before[n], after[n].detach())]
    assert len(changed) == len(before)
    assert len(logged(trainer, "loss")) == 3


CHOICES: list[Choice] = [
    "gpg",
    "grpo",
    {"name": "gvpo", "objective": {"reference": "initial"}},
    "cw_grpo",
    "dpo",
    {"name": "rloo", "advantage": "gdpo"},
]


@pytest.mark.parametrize("algorithm", CHOICES, ids=str)
def test_the_loss_is_policy_loss_and_accumulation_changes_nothing(
    folder: Path, tmp_path: Path, algorithm: Choice
) -> None:
    whole = trained(folder, tmp_path / "1", algorithm)
    (once,) = whole.gradients
    mask = whole.stack("mask")
    assert len(set(mask.sum(1).tolist())) > 2
    expected = of_policy_loss(whole, algorithm)
    assert logged(whole, "loss") == pytest.approx([expected], rel=1e-4, abs=1e-6)
    assert max(float(g.abs().max()) for g in once.values()) > 1e-3
    for accumulate in (2, 4):
        parts = trained(folder, tmp_path / str(accumulate), algorithm, accumulate=accumulate)
        assert torch.equal(parts.stack("mask"), mask)
        (summed,) = parts.gradients
        for name, gradient in once.items():
            torch.testing.assert_close(summed[name], gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("algorithm", ["grpo", "gmpo", "gvpo"])
def test_a_second_update_on_the_same_completions_uses_the_old_log_probs(
    folder: Path, tmp_path: Path, algorithm: str
) -> None:
    runs = [
        trained(folder, tmp_path / str(n), algorithm, steps=2, accumulate=n, num_iterations=2)
        for n in (1, 2)
    ]
    for trainer in runs:
        assert float((trainer.stack("old") - trainer.stack("logprobs")).abs().max()) > 1e-2
        expected = of_policy_loss(trainer, algorithm)
        assert logged(trainer, "loss")[1] == pytest.approx(expected, rel=1e-4, abs=1e-6)
    for name, gradient in runs[0].gradients[1].items():
        torch.testing.assert_close(runs[1].gradients[1][name], gradient, rtol=1e-3, atol=1e-5)


def test_groups_and_rollouts_that_an_algorithm_does_not_keep_are_left_out(
    folder: Path, tmp_path: Path
) -> None:
    def first_group(completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float]:
        return [float(i == 1) if i < GROUP else 1.0 for i in range(len(completion_ids))]

    keeps = {"keep": "dynamic_sampling"}
    trainer = trained(folder, tmp_path, {"name": "rloo", **keeps}, reward_funcs=[first_group])
    mask, now = trainer.stack("mask")[:GROUP], trainer.stack("logprobs")[:GROUP]
    expected = policy_loss(
        "rloo",
        logprobs=now,
        rewards=[0.0, 1.0, 0.0, 0.0],
        group=[0] * GROUP,
        mask=mask,
        old_logprobs=now,
    )
    assert logged(trainer, "loss") == pytest.approx([float(expected.loss)], rel=1e-4, abs=1e-6)
    chosen = trained(folder, tmp_path, "raft", reward_funcs=[first_group])._steps["train"]
    assert set(chosen.row_of) == {1, 4, 5, 6, 7}
    assert chosen.loss.denominators.rollouts == 5


def test_a_completion_that_no_reward_applies_to_is_left_out(folder: Path, tmp_path: Path) -> None:
    def some(completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float | None]:
        return [None if i % GROUP == 0 else float(i % 2) for i in range(len(completion_ids))]

    step = trained(folder, tmp_path, "dr_grpo", reward_funcs=[some])._steps["train"]
    assert step.loss.denominators.rollouts == ANSWERS - 2
    assert set(step.row_of) == {1, 2, 3, 5, 6, 7}
    assert step.advantages[0] == 0.0
    assert step.advantages[1] == pytest.approx(1 / 3)


@pytest.mark.parametrize("algorithm", ["rloo", "gvpo"])
def test_a_group_with_too_few_scored_completions_is_left_out(
    folder: Path, tmp_path: Path, algorithm: str
) -> None:
    def some(completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float | None]:
        return [None if 0 < i < GROUP else float(i % 2) for i in range(len(completion_ids))]

    step = trained(folder, tmp_path, algorithm, reward_funcs=[some])._steps["train"]
    assert set(step.row_of) == {4, 5, 6, 7}
    assert step.advantages[:GROUP] == (0.0,) * GROUP


def test_the_table_of_completions_shows_our_advantages(folder: Path, tmp_path: Path) -> None:
    one = Dataset.from_list([{"prompt": "Which digit"}])
    evaluated: dict[str, Any] = {
        "eval_strategy": "steps",
        "eval_steps": 1,
        "per_device_eval_batch_size": GROUP,
    }
    trainer = trained(folder, tmp_path, "gpg", eval_dataset=one, **evaluated)
    of_train, of_eval = (trainer._steps[mode].advantages for mode in ("train", "eval"))
    assert list(trainer._logs["advantages"]) == [*of_train[GROUP:], *of_eval]
    assert logged(trainer, "alpha") == [1.0]


def test_an_evaluation_of_more_completions_than_a_training_step(
    folder: Path, tmp_path: Path
) -> None:
    """TRL's table keeps as many completions as a step of training has."""
    rows = Dataset.from_list([{"prompt": "Which digit"}] * 4)
    evaluated: dict[str, Any] = {"eval_strategy": "steps", "eval_steps": 1}
    size = {"per_device_eval_batch_size": 2 * ANSWERS}
    trainer = trained(folder, tmp_path, "gpg", eval_dataset=rows, **evaluated, **size)
    assert len(trainer._steps["eval"].advantages) == 2 * ANSWERS
    assert list(trainer._logs["advantages"]) == [*trainer._steps["eval"].advantages[ANSWERS:]]


def test_evaluation_in_between_leaves_the_training_step_alone(folder: Path, tmp_path: Path) -> None:
    rows = Dataset.from_list([{"prompt": "Which digit"}, {"prompt": "is this"}])
    more: dict[str, Any] = {"eval_strategy": "steps", "eval_steps": 1, "num_iterations": 2}
    settings = {"steps": 2, "eval_dataset": rows, "per_device_eval_batch_size": GROUP}
    evaluated = trained(folder, tmp_path, "gvpo", **settings, **more)
    plain = trained(folder, tmp_path, "gvpo", steps=2, num_iterations=2)
    assert len(logged(evaluated, "eval_loss")) == 2
    for name, gradient in plain.gradients[1].items():
        assert torch.equal(evaluated.gradients[1][name], gradient)


REFUSED: list[tuple[Choice, dict[str, Any], str]] = [
    ("remax", {}, "remax: needs a greedy answer"),
    ("sft", {}, "sft: learns from gold answers"),
    ({"name": "grpo", "replay": "fifo"}, {}, "algorithm.replay"),
    ({"name": "grpo", "reference": {"update": "ema"}}, {}, "use sync_ref_model"),
    ("gpg", {"loss_type": "grpo"}, "loss_type: belongs to TRL's loss"),
    ("gpg", {"beta": 0.1}, "beta: belongs to TRL's loss"),
    ("grpo", {"sapo_temperature_pos": 2.0}, "sapo_temperature_pos: belongs to TRL's loss"),
    (
        "rloo",
        {"num_generations_eval": 1},
        "num_generations_eval: 1; algorithm rloo compares at least 2",
    ),
    (
        "gvpo",
        {"num_generations_eval": 1},
        "num_generations_eval: 1; algorithm gvpo compares at least 2",
    ),
    ("gpg", {"steps_per_generation": 2}, "steps_per_generation: 2; an optimiser step is one"),
    ("dr_grpo", {"max_completion_length": None}, "max_completion_length: the reduction"),
    ("nosuch", {}, "unknown algorithm 'nosuch'"),
]


@pytest.mark.parametrize(("algorithm", "settings", "message"), REFUSED, ids=lambda v: str(v)[:30])
def test_settings_that_cannot_be_honoured_are_refused(
    folder: Path, tmp_path: Path, algorithm: Choice, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        trained(folder, tmp_path, algorithm, **settings)
    assert len(error.value.mistakes) == 1


def test_the_correction_of_vllm_in_trl_is_refused() -> None:
    from vlrft.algorithms import find_algorithm
    from vlrft.integrations.trl_settings import refusals

    args = GRPOConfig(use_vllm=True, report_to=[], use_cpu=True, bf16=False)
    (line,) = refusals(find_algorithm("gpg"), args)
    assert line.startswith("vllm_importance_sampling_correction: belongs to TRL's loss")


def test_the_example_of_the_page_runs(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = BLOCKS["with_trl.py"].replace('"MODEL"', repr(str(folder)))
    small = "GRPOConfig(use_cpu=True, bf16=False, report_to=[], max_completion_length=4,"
    namespace: dict[str, Any] = {}
    exec(text.replace("GRPOConfig(", small), namespace)
    assert namespace["trainer"].state.global_step == 3


def test_without_trl_the_import_names_the_extra() -> None:
    code = "import sys; sys.modules['trl'] = None; import vlrft.integrations.trl"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "ImportError: vlrft.integrations.trl needs TRL: pip install 'vlrft[trl]'" in done.stderr
