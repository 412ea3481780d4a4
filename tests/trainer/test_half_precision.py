"""Runs in bfloat16, of adapters and of all weights: killed and resumed bit by bit, and evaluated from their checkpoints with the
answers of their own last evaluation."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import vlrft
from vlrft.config import LoraConfig, PolicyConfig
from vlrft.config.load import load_config
from vlrft.policy.adapter_files import FOLDER
from vlrft.policy.checkpoint_adapter import exact_policy
from vlrft.policy.load import load_policy
from vlrft.reporting.run_log import RunLog
from vlrft.schema import Record
from vlrft.schema.errors import ConfigError
from vlrft.testing.small_policies import CORPUS, tiny_config
from vlrft.trainer.export import export_model, find_source
from vlrft.trainer.train import train

RUN = """
task: {{name: digits, options: {{subtasks: [count], train: 60, test: 20}}, rewards: {{format: 1.0}}}}
policy: {{model: {base}, dtype: bfloat16, max_pixels: 3136, lora: {lora}}}
rollout: {{group_size: 2, max_tokens: 5}}
update: {{lr: 1.0e-4}}
stages: [{{algorithm: sft, steps: 3, prompts_per_step: 2}}]
eval: {{limit: 3, every: 0, {decoding}}}
save: {{every: 1, background: {background}}}
device: cpu
"""
TASK = {
    "options.subtasks": ["count"],
    "rollout.max_tokens": 5,
    "policy.max_pixels": 3136,
}
SAMPLED = {"eval.temperature": 1.0, "eval.answers": 2}


@dataclass(frozen=True, kw_only=True)
class Case:
    lora: str
    decoding: dict[str, Any]  # overrides of an evaluation
    background: str


CASES = {
    "adapters, sampled": Case(lora="{rank: 2}", decoding=SAMPLED, background="true"),
    "all weights, greedy": Case(lora="null", decoding={}, background="null"),
}


class Killed(BaseException):
    """Simulates a kill: no code catches it."""


@dataclass(frozen=True, kw_only=True)
class Trained:
    case: Case
    base: Path
    run: Path
    resumed: Path  # the same run, killed in its third step and resumed

    @property
    def last(self) -> Path:
        return self.run / "checkpoints" / "last"


@pytest.fixture(scope="module", params=CASES)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    case, folder = CASES[request.param], tmp_path_factory.mktemp("half")
    load_policy(tiny_config("qwen2_vl", dtype="bfloat16"), corpus=CORPUS).save(folder / "base")
    decoding = ", ".join(f"{k.removeprefix('eval.')}: {v}" for k, v in case.decoding.items())
    text = RUN.format(
        base=folder / "base", lora=case.lora, decoding=decoding, background=case.background
    )
    (folder / "run.yaml").write_text(text)
    config = load_config(folder / "run.yaml")
    train(config, out=folder / "run")
    log = RunLog.step

    def step(self: RunLog, stage: str, number: int, *rest: Any) -> None:
        if number == 3:
            raise Killed
        log(self, stage, number, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunLog, "step", step)
        with pytest.raises(Killed):
            train(config, out=folder / "resumed")
    train(config, out=folder / "resumed", resume=True)
    return Trained(case=case, base=folder / "base", run=folder / "run", resumed=folder / "resumed")


def evaluations(run: Path, step: int) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (run / "evals.jsonl").read_text().splitlines()]
    return [row for row in rows if row["step"] == step]


def test_a_killed_and_resumed_run_in_bfloat16_is_bit_identical(trained: Trained) -> None:
    for name in ("model.safetensors", "trainer/state.safetensors"):
        one = load_file(trained.last / name)
        other = load_file(trained.resumed / "checkpoints" / "last" / name)
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one)
    assert evaluations(trained.run, 3) == evaluations(trained.resumed, 3)


@pytest.mark.parametrize("source", ["the run's config", "the task's name"])
def test_a_checkpoint_answers_as_the_run_did_in_its_last_evaluation(
    trained: Trained, source: str
) -> None:
    """Record by record, also where no dtype is named."""
    if source == "the run's config":
        config = load_config(trained.run / "config.yaml")
        evaluation = vlrft.evaluate(str(trained.last), config, progress=False)
    else:
        overrides = {**TASK, **trained.case.decoding}
        evaluation = vlrft.evaluate(
            str(trained.last), "digits", limit=3, overrides=overrides, progress=False
        )

    def shown(record: Record | dict[str, Any]) -> list[Any]:
        row = record if isinstance(record, dict) else vars(record)
        return [row[key] for key in ("id", "output", "truncated")]

    assert list(map(shown, evaluation.records)) == list(map(shown, evaluations(trained.run, 3)))
    assert len({record.output for record in evaluation.records}) > 1


def test_a_checkpoint_is_loaded_as_its_run_held_it(trained: Trained, tmp_path: Path) -> None:
    policy = vlrft.load_policy(trained.run)
    assert policy.dtype == torch.bfloat16
    assert policy.has_lora == (trained.case.lora != "null")
    asked = vlrft.load_policy(trained.run, dtype="float32")
    assert asked.dtype == torch.float32


def test_an_export_in_float32_holds_the_whole_update_of_adapters(
    trained: Trained, tmp_path: Path
) -> None:
    exported = export_model(find_source(str(trained.run)), tmp_path, dtype="float32", base=None)
    if trained.case.lora == "null":
        assert exported.kept is None
        stored = load_file(trained.last / "model.safetensors")
        merged = load_file(tmp_path / "model.safetensors")
        assert all(torch.equal(merged[name], stored[name].float()) for name in stored)
        return
    assert exported.base == str(trained.base)
    assert exported.kept == pytest.approx(1.0, abs=1e-3)
    merge = json.loads((trained.last / FOLDER / "merge.json").read_text())
    assert merge["kept"] < 0.95  # in the weights of `last`


def test_an_adapter_whose_base_is_gone_says_so_and_the_merged_weights_answer(
    trained: Trained,
) -> None:
    moved = trained.base.with_name("moved")
    trained.base.rename(moved)
    try:
        policy = vlrft.load_policy(trained.run)
        config, line = exact_policy(PolicyConfig(model=str(trained.last)))
    finally:
        moved.rename(trained.base)
    assert not policy.has_lora
    assert (config.model, config.dtype) == (str(trained.last), "bfloat16")
    gone = f"model: the merged weights of {trained.last}; {trained.base}, the model of its exact adapter, is not here"
    assert line == ("" if trained.case.lora == "null" else gone)


def test_an_adapter_whose_base_has_changed_is_refused(trained: Trained) -> None:
    if trained.case.lora != "null":
        file = trained.base / "model.safetensors"
        stored = file.read_bytes()
        tensors = load_file(file)
        save_file({name: tensor * 1.25 for name, tensor in tensors.items()}, file, {"format": "pt"})
        try:
            with pytest.raises(ConfigError, match="it was trained on other weights than those of"):
                vlrft.load_policy(trained.run)
        finally:
            file.write_bytes(stored)
    assert vlrft.load_policy(trained.run).has_lora == (trained.case.lora != "null")


def test_the_adapter_of_a_model_that_was_built_says_what_its_merged_weights_lack(
    tmp_path: Path,
) -> None:
    """The model is stored nowhere else, so the checkpoint is the merged weights."""
    config = tiny_config("qwen2", dtype="bfloat16", lora=LoraConfig(rank=2))
    policy = load_policy(config, corpus=CORPUS)
    policy.save(tmp_path)
    assert exact_policy(PolicyConfig(model=str(tmp_path))) == (
        PolicyConfig(model=str(tmp_path)),
        "",
    )
    with torch.no_grad():
        for name, weight in policy.model.named_parameters():
            if "lora_B" in name:
                weight.fill_(1e-5)
    policy.save(tmp_path)
    asked, line = exact_policy(PolicyConfig(model=str(tmp_path)))
    assert asked.adapter is None
    assert line.startswith(f"model: the merged weights of {tmp_path}, which hold ")
    assert line.endswith(
        "% of its adapters' update; the model that they belong to was built and is not stored"
    )
