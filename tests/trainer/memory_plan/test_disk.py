"""The room for checkpoints: their planned size beside that of real ones, and disks that are too small."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from tests.memory.shapes import MODEL
from tests.memory.test_phases import WORK, alone
from vlrft.cli.main import main
from vlrft.config import LoraConfig, PolicyConfig, UpdateConfig
from vlrft.config.load import load_config
from vlrft.engine import build_engine
from vlrft.engine.single import Single
from vlrft.memory.phases import checkpoint_size, plan
from vlrft.memory.sampling_phase import shared_prefix_memory
from vlrft.policy.load import load_policy
from vlrft.schema.errors import ConfigError
from vlrft.testing.small_policies import CORPUS, tiny_config
from vlrft.trainer.memory_plan.disk import check_disk, free_room, most_checkpoints
from vlrft.trainer.memory_plan.model_shapes import load_model_shape
from vlrft.trainer.memory_plan.planner import StagePlan
from vlrft.trainer.train import train

HEADERS = 40_000  # bytes of names and shapes in the files of a small model
TINY = """
task: {name: digits, options: {subtasks: [count]}}
policy:
  build: {hidden_size: 32, layers: 1, heads: 4, kv_heads: 2, intermediate_size: 32, vision_width: 32, vision_layers: 1}
rollout: {group_size: 2, max_tokens: 2}
stages: [{steps: 4, prompts_per_step: 2}]
"""


@pytest.fixture
def small_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the free bytes of every disk."""

    def leave(free: int) -> None:
        monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))

    return leave


@pytest.mark.parametrize(
    "config",
    [
        tiny_config("qwen2_vl"),
        tiny_config("qwen2_vl", dtype="bfloat16"),
        tiny_config("qwen2_vl", dtype="bfloat16", lora=LoraConfig(rank=4)),
    ],
    ids=["float32", "bfloat16", "bfloat16 with LoRA"],
)
def test_the_planned_size_is_that_of_a_checkpoint(config: PolicyConfig, tmp_path: Path) -> None:
    policy = load_policy(config, corpus=CORPUS)
    engine = build_engine(UpdateConfig(), policy, 1)
    loss = sum((p.float() ** 2).sum() for p in policy.model.parameters() if p.requires_grad)
    assert isinstance(loss, torch.Tensor)
    engine.backward(loss, last=True)
    engine.step()
    stored = policy.save(tmp_path)
    trained = {n: t for n, t in policy.trained_weights().items() if n not in stored}
    state = [*engine.state()[0].values(), *trained.values()]
    size = sum(tensor.nbytes for tensor in state)
    size += sum(path.stat().st_size for path in tmp_path.rglob("*.safetensors"))
    shape = load_model_shape(config, tokenizer=policy.chat.tokenizer, device="cpu")
    rank = Single().rank_memory(UpdateConfig(), shape, 1)
    assert 0 <= size - checkpoint_size(shape, WORK, rank) < HEADERS


def test_a_copy_that_is_written_in_the_background_is_held_in_every_phase() -> None:
    """On a CPU it is part of the run's memory, on a GPU of the host's."""
    model = replace(MODEL, weights=replace(MODEL.weights, plain=1000))
    work = replace(WORK, background=True)
    copy = checkpoint_size(model, work, alone(model))
    assert copy == 1000 + 2000  # weights and moments
    cpu = plan(model, work, alone(model), shared_prefix_memory)
    assert {phase.parts["checkpoint copy"] for phase in cpu.phases} == {copy}
    gpu = replace(model, gpu=True)
    phases = plan(gpu, work, alone(gpu), shared_prefix_memory).phases
    assert {phase.host["checkpoint copy"] for phase in phases} == {copy}
    assert not any("checkpoint copy" in phase.parts for phase in phases)


def stage(size: int) -> StagePlan:
    whole = plan(MODEL, WORK, alone(MODEL), shared_prefix_memory)
    return StagePlan(name="gpg", plan=whole, origin="", checkpoint=size)


def test_a_disk_that_is_too_small_is_told_before_the_run(
    tmp_path: Path, small_disk: Callable[[int], None]
) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY)
    config = load_config(str(tmp_path / "tiny.yaml"), ["save.every=1"])
    assert most_checkpoints(config) == 4
    assert most_checkpoints(load_config(str(tmp_path / "tiny.yaml"))) == 1
    size, stages = 3 * 2**20, [stage(3 * 2**20)]
    small_disk(4 * size)
    (line,) = check_disk(config, stages, tmp_path / "new" / "run")
    assert line.startswith("3.0 MiB for each checkpoint, 12 MiB for up to 4 at once; 12 MiB free")
    small_disk(4 * size - 1)
    assert check_disk(config, stages, tmp_path)[1].startswith("too small for all of them")
    small_disk(size - 1)
    with pytest.raises(ConfigError, match=r"a checkpoint takes 3.0 MiB and its disk has 3.0 MiB"):
        check_disk(config, stages, tmp_path)
    assert len(check_disk(replace(config, memory_check=False), stages, tmp_path)) == 2


def test_checkpoints_of_the_run_before_make_room(
    tmp_path: Path, small_disk: Callable[[int], None]
) -> None:
    small_disk(10)
    (tmp_path / "checkpoints" / "step_3" / "trainer").mkdir(parents=True)
    before = free_room(tmp_path)
    (tmp_path / "checkpoints" / "step_3" / "trainer" / "state").write_bytes(b"x" * 500)
    (tmp_path / "checkpoints" / "mine").write_bytes(b"x" * 900)
    assert free_room(tmp_path) == before + 500


def test_the_disk_is_that_of_checkpoints_which_were_moved_behind_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, large = tmp_path / "run", tmp_path / "large"
    run.mkdir()
    large.mkdir()
    (run / "checkpoints").symlink_to(large)

    def usage(path: Path) -> SimpleNamespace:
        return SimpleNamespace(free=9 if Path(path).resolve() == large.resolve() else 4)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    assert (free_room(run), free_room(tmp_path / "new")) == (9, 4)


def test_a_run_without_room_for_a_checkpoint_does_not_start(
    tmp_path: Path, small_disk: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY)
    small_disk(2**10)
    with pytest.raises(ConfigError, match="its disk has 1 KiB left"):
        train(load_config(str(tmp_path / "tiny.yaml")), out=tmp_path / "run")
    assert not (tmp_path / "run" / "config.yaml").exists()
    assert main(["doctor", str(tmp_path / "tiny.yaml")]) == 0
    page = capsys.readouterr().out
    assert "for each checkpoint; 1 KiB free for runs\n  too small for all of them" in page
