"""Numbers that are not finite, and policies that diverge: neither is saved, and the run says what to lower."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.trainer.small_runs import assert_same_run
from vlrft.config import Config
from vlrft.policy.policy import Policy
from vlrft.schema.errors import TrainingStopped
from vlrft.trainer.train import train
from vlrft.trainer.update import update


def test_steps_that_are_not_finite_are_skipped_and_stop_the_run(
    config: Callable[..., Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, save = tmp_path / "run", Policy.save

    def poisoned(engine: Any, *rest: Any) -> Any:
        if engine.policy.poison:
            engine.scorer = lambda *inputs: [
                part * torch.nan for part in engine.policy.scorer(*inputs)
            ]
        return update(engine, *rest)

    def save_and_poison(self: Policy, *rest: Any) -> dict[str, str]:
        stored = save(self, *rest)
        Policy.poison = True  # type: ignore[attr-defined]
        return stored

    monkeypatch.setattr(Policy, "poison", False, raising=False)
    monkeypatch.setattr(Policy, "save", save_and_poison)
    monkeypatch.setattr("vlrft.trainer.train.update", poisoned)
    with pytest.raises(TrainingStopped, match="3 steps in a row"):
        train(config("stages.0.steps=6", "save.every=1"), out=run)
    assert all(
        torch.isfinite(v).all()
        for v in load_file(run / "checkpoints" / "step_1" / "model.safetensors").values()
    )


@pytest.mark.parametrize(
    ("lr", "weight_decay", "step", "reason"),
    [
        (1e9, 0.0, 4, "log-probs are NaN or infinite, even on a short prompt"),
        (1e12, 1e30, 3, "weights are NaN or infinite after the optimiser step"),
    ],
)
def test_a_policy_that_diverges_is_not_saved_and_the_run_says_what_to_lower(
    config: Callable[..., Config],
    tmp_path: Path,
    lr: float,
    weight_decay: float,
    step: int,
    reason: str,
) -> None:
    run = tmp_path / "run"
    diverging = config(f"stages.1.update.lr={lr}", f"stages.1.update.weight_decay={weight_decay}")
    with pytest.raises(TrainingStopped, match=f"stops after step {step}: .*{reason}") as stopped:
        train(diverging, out=run)
    assert f"last good checkpoint: {run}/checkpoints/step_3; --resume" in str(stopped.value)
    assert f"lower update.lr ({lr:g})" in str(stopped.value)
    assert "of stage gpg" in str(stopped.value)
    assert (run / "checkpoints" / "last").resolve().name == "step_3"
    assert not (run / "checkpoints" / "step_4").exists()


def test_a_resumed_run_passes_over_a_checkpoint_of_a_policy_that_diverged(
    config: Callable[..., Config], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As earlier versions wrote them: its hashes are right and its weights are finite."""
    whole = train(config(), out=tmp_path / "whole").folder
    run = tmp_path / "run"
    shutil.copytree(whole, run, symlinks=True)
    last = run / "checkpoints" / "step_6"
    file = last / "model.safetensors"
    save_file({k: v * 1e30 for k, v in load_file(file).items()}, file)
    manifest = json.loads((last / "manifest.json").read_text())
    manifest["files"]["model.safetensors"] = hashlib.sha256(file.read_bytes()).hexdigest()
    (last / "manifest.json").write_text(json.dumps(manifest))
    train(config(), out=run, resume=True)
    assert "step_6 holds a policy whose log-probs are NaN or infinite" in capsys.readouterr().err
    assert_same_run(whole, run)
