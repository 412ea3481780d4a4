"""The Python blocks of docs/howto/own_trainer.md run as printed, and do what the page says."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from tests.docs.pages import files, read_page
from vlrft.algorithms import policy_loss

BLOCKS = files(read_page("docs/howto/own_trainer.md"))


def run(name: str, **changed: str) -> dict[str, Any]:
    """The names that a block defines; `changed`: values of its constants."""
    text = BLOCKS[name]
    for constant, value in changed.items():
        text, count = re.subn(rf"^{constant} = .*$", f"{constant} = {value}", text, flags=re.M)
        assert count == 1
    left: dict[str, Any] = {"__name__": name}
    exec(compile(text, name, "exec"), left)
    return left


def test_the_page_has_the_blocks_that_are_run_here() -> None:
    assert set(BLOCKS) == {"ten_lines.py", "needs.py", "toy_loop.py", "in_parts.py", "with_trl.py"}


def test_ten_lines() -> None:
    code = [line for line in BLOCKS["ten_lines.py"].splitlines()[1:] if line]
    assert len(code) <= 10
    left = run("ten_lines.py")
    gradient = left["logprobs"].grad
    assert not gradient[~left["mask"]].any()
    assert gradient[left["mask"]].all()


def test_needs_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    run("needs.py")
    needs = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()}
    assert needs["gpg"] == []
    assert needs["gmpo"] == ["old"]
    assert needs["dpo"] == ["reference"]


@pytest.mark.parametrize("method", ["gpg", "gmpo", "grpo", "gvpo"])
def test_the_toy_loop_learns(method: str) -> None:
    steps = {} if method == "gpg" else {"ALGORITHM": repr(method)}
    means = run("toy_loop.py", **steps)["means"]
    assert means[0] < 0.2  # chance: 1/18 + 4/81 = 0.105
    assert sum(means[-10:]) / 10 > 0.9


def test_a_step_in_parts_has_the_gradient_of_the_whole() -> None:
    left = run("in_parts.py")
    model = left["model"]
    gradients = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    logprobs = left["logprobs"](slice(0, 8))
    whole: Any = policy_loss(
        "gvpo", logprobs=logprobs, old_logprobs=logprobs.detach(), **left["step"]
    ).loss
    whole.backward()
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        assert gradient.any()
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-12, atol=0)
