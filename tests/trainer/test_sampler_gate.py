"""The gate: an engine with weights of its own is compared with the trainer during a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from vlrft.config import RolloutConfig, strict
from vlrft.config.load import load_config
from vlrft.distributed.ranks import ALONE
from vlrft.policy.policy import Policy
from vlrft.rollout.engines import Sampling
from vlrft.rollout.engines.hf import HfEngine
from vlrft.rollout.engines.types import Request
from vlrft.schema import Piece
from vlrft.schema.errors import SelfCheckError
from vlrft.trainer.sampler_check import SamplerGap
from vlrft.trainer.sampler_gate import SamplerGate
from vlrft.trainer.train import train

GAP = SamplerGap(tokens=10, total=2e-4, row=5e-5, row_tokens=10, sample="digits/7")


class Copy(HfEngine):
    """Samples as the policy does, but reports log-probs that are off by `wrong`."""

    check_every = 3
    max_gap: float | None = None
    wrong = 0.0

    def explain_gap(self) -> str:
        return "one of 9 tensors is old: lm_head"

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[tuple[Piece, ...]]:
        return [
            tuple(replace(p, logprobs=tuple(x + self.wrong for x in p.logprobs)) for p in group)
            for group in super().generate(requests, sampling)
        ]


def gate(lines: list[str], **settings: object) -> SamplerGate:
    engine = Copy.__new__(Copy)
    for name, value in settings.items():
        setattr(engine, name, value)
    made = SamplerGate.of(engine, ALONE, lines.append, wanted=True)
    assert made is not None
    return made


def test_it_is_due_at_the_start_after_the_first_update_and_after_every_so_many() -> None:
    made = gate([])
    assert [step for step in range(1, 12) if made.is_due()] == [1, 2, 5, 8, 11]


def test_an_engine_that_shares_the_module_has_no_gate() -> None:
    engine = HfEngine.__new__(HfEngine)
    assert SamplerGate.of(engine, ALONE, str, wanted=True) is None
    assert SamplerGate.of(Copy.__new__(Copy), ALONE, str, wanted=False) is None


def test_a_small_gap_is_logged_and_a_large_one_stops_the_run_with_its_reason() -> None:
    lines: list[str] = []
    gate(lines).require(GAP, torch.float32, 5)
    assert lines == [
        "step 5: the rollout engine's log-probs differ from the trainer's by 2.0e-05 on average, by 5.0e-05 in the worst row "
        "(allowed: 0.0001)"
    ]
    with pytest.raises(
        SelfCheckError, match=r"^step 5, digits/7: .* by 2e-05 on average .*lm_head"
    ):
        gate(lines, max_gap=1e-5).require(GAP, torch.float32, 5)
    assert len(lines) == 1


def test_a_step_without_anything_to_compare_hands_its_turn_to_the_next() -> None:
    made = gate([])
    assert made.is_due()
    made.require(None, torch.float32, 1)
    assert [made.is_due() for _ in range(3)] == [True, True, False]


@strict
class CopyKind:
    wrong_after: int = 100

    def check(self, config: RolloutConfig) -> None:
        pass

    def build(self, policy: Policy) -> Copy:
        engine = Copy(policy)
        after = self.wrong_after

        def load(weights: object, step: int) -> None:
            engine.wrong = 0.5 if step >= after else 0.0

        engine.load_weights = load  # type: ignore[method-assign]
        return engine


TINY = """
task: {name: digits, options: {train: 8, test: 2}}
policy: {build: {family: qwen2_vl, hidden_size: 32, layers: 1, heads: 2, vision_width: 32, vision_layers: 1, vision_heads: 2, vocab_size: 400}}
rollout: {group_size: 2, max_tokens: 4}
eval: {limit: 1}
stages: [{algorithm: {name: gpg, regularize: {kl: 0.1}}, steps: 3, prompts_per_step: 2}]
"""


def test_a_run_whose_engine_loses_an_update_stops_at_the_next_step(tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY)
    engine = f"rollout.engine={{name: '{__name__}:CopyKind', wrong_after: 1}}"
    config = load_config(str(tmp_path / "tiny.yaml"), (engine,))
    with pytest.raises(SelfCheckError, match=r"^step 2, "):
        train(config, out=tmp_path / "run")
