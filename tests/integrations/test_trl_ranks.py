"""Two processes under TRL's trainer compute the gradient of one, also when a group is on both ranks."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed import TCPStore  # type: ignore[attr-defined]

pytest.importorskip("trl")

from tests.integrations.test_trl import ANSWERS, Choice, folder, trained
from vlrft.testing.process_ranks import start_ranks

__all__ = ["folder"]
pytestmark = pytest.mark.filterwarnings("default")  # other packages warn
CHOICES: list[Choice] = ["gpg", "cw_grpo", "dpo"]
GROUPS = (4, 8)  # a group of 8 is on both ranks


def fixed_completions(prompts: list[str], trainer: Any) -> dict[str, Any]:
    """The same completions for any number of processes, some with tokens of an environment."""
    first = trainer.accelerator.process_index * len(prompts)
    numbers = [first + i for i in range(len(prompts))]
    ids = [[(7 * n + 11 * t) % 90 for t in range(1 + n * 3 % 6)] for n in numbers]
    return {
        "prompt_ids": [trainer._tokenizer(p)["input_ids"] for p in prompts],
        "completion_ids": ids,
        "logprobs": None,
        "env_mask": [[int(t != 1) for t in range(len(row))] for row in ids],
    }


def gradient(model: Path, out: Path, algorithm: Choice, size: int, **more: Any) -> Any:
    settings: dict[str, Any] = {"num_generations": size, "rollout_func": fixed_completions}
    return trained(model, out, algorithm, **settings, **more).gradients[0]


def work(rank: int, model: Path, out: Path, port: int) -> None:
    warnings.simplefilter("ignore")
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    torch.set_num_threads(1)
    gradients = [
        gradient(model, out, algorithm, size, ranks=2, accumulate=2, ddp_backend="gloo")
        for algorithm in CHOICES
        for size in GROUPS
    ]
    if rank == 0:
        torch.save(gradients, out / "gradients.pt")


def test_two_ranks_compute_the_gradient_of_one(folder: Path, tmp_path: Path) -> None:
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    start_ranks(work, (folder, tmp_path, store.port), 2)
    gradients = iter(torch.load(tmp_path / "gradients.pt"))
    for algorithm in CHOICES:
        for size in GROUPS:
            alone = gradient(folder, tmp_path, algorithm, size)
            assert max(float(g.abs().max()) for g in alone.values()) > 1e-3
            for name, both in next(gradients).items():
                torch.testing.assert_close(
                    both, alone[name.removeprefix("module.")], rtol=1e-4, atol=1e-6
                )


def test_an_environments_tokens_are_not_trained_on(folder: Path, tmp_path: Path) -> None:
    step = trained(folder, tmp_path, "dr_grpo", rollout_func=fixed_completions)._steps["train"]
    lengths = [1 + n * 3 % 6 for n in range(ANSWERS)]
    assert step.loss.denominators.tokens == sum(n - (n > 1) for n in lengths)
    assert not step.loss.mask[:, 1].any()
