"""The comparison of the sampler's log-probs with the trainer's at the first step of a stage."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import torch

from tests.conftest import Tiny
from vlrft.advantages.rows import estimate_rows
from vlrft.algorithms import ALGORITHMS
from vlrft.config import RolloutConfig, strict
from vlrft.config.load import load_config
from vlrft.distributed.ranks import ALONE, Ranks
from vlrft.policy.policy import Policy
from vlrft.reporting.run_folder.names import METRICS
from vlrft.rollout.engines import Request, Sampling
from vlrft.rollout.engines.hf import HfEngine
from vlrft.schema import Group, Piece, Rollout, TrainingRow
from vlrft.schema.errors import SelfCheckError
from vlrft.testing.small_policies import ask, sample
from vlrft.trainer.batch import Batch, make_batch
from vlrft.trainer.sampler_check import SamplerGap, measure_sampler_gap, require_small_gap
from vlrft.trainer.self_checks import first_with_rows
from vlrft.trainer.stage import Stage
from vlrft.trainer.train import train

Change = Callable[[Piece], Piece]


def shifted(by: float) -> Change:
    return lambda piece: replace(piece, logprobs=tuple(x + by for x in piece.logprobs))


def unsampled(piece: Piece) -> Piece:
    return replace(piece, logprobs=())


def make(
    policy: Policy,
    changes: Sequence[Change] = (shifted(0),),
    origin: Literal["fresh", "replay"] = "fresh",
    **how: Any,
) -> tuple[Batch, RolloutConfig]:
    """Four rollouts of one prompt; `changes` in turn to their pieces; and how they were sampled."""
    rollout = RolloutConfig(**{"max_tokens": 6, "temperature": 0.8, **how})
    prompt = policy.chat.render(ask("How many?"))
    request = Request(id="s", prompt=prompt, seeds=(0, 1, 2, 3))
    (pieces,) = HfEngine(policy).generate([request], Sampling.of(rollout))
    one = sample("s")
    rollouts = tuple(
        Rollout(
            sample=one,
            rows=(TrainingRow(prompt=prompt, pieces=(changes[k % len(changes)](piece),)),),
            reward=float(k % 2),
            origin=origin,
        )
        for k, piece in enumerate(pieces)
    )
    groups = [Group(sample=one, rollouts=rollouts)]
    gpg = ALGORITHMS["gpg"]
    advantages = estimate_rows(groups, gpg.estimator)
    batch = make_batch(groups, advantages, gpg, temperature=0.8, max_tokens=6)
    return batch, rollout


def gap_of(policy: Policy, batch: Batch, rollout: RolloutConfig) -> SamplerGap | None:
    return measure_sampler_gap(policy, batch, 1000, rollout)


@pytest.mark.parametrize(
    "how", [{}, {"top_p": 0.7}, {"top_k": 3}, {"top_k": 5, "top_p": 0.5}], ids=str
)
def test_the_policys_own_sampler_passes_however_it_samples(tiny: Tiny, how: dict[str, Any]) -> None:
    policy = tiny("qwen2")
    gap = gap_of(policy, *make(policy, **how))
    assert gap is not None
    assert gap.tokens == 24
    assert gap.row < 1e-5
    require_small_gap(gap, policy.dtype, ALONE)


def test_a_difference_is_refused_with_its_sample_and_both_bounds(tiny: Tiny) -> None:
    policy = tiny("qwen2")
    batch, rollout = make(policy, (shifted(0), shifted(0), shifted(0), shifted(-0.4)))
    gap = gap_of(policy, batch, rollout)
    assert gap is not None
    assert gap.row == pytest.approx(0.4, abs=1e-4)
    assert gap.total == pytest.approx(0.4 * 6, abs=1e-3)
    with pytest.raises(SelfCheckError, match=r"s: .*sampler_gap is 0\.1 .*0\.0001\), 0\.4 in"):
        require_small_gap(gap, policy.dtype, ALONE)
    with pytest.raises(SelfCheckError, match=r"torch\.bfloat16: 0\.05.*allowed: 0\.25"):
        require_small_gap(gap, torch.bfloat16, ALONE)
    require_small_gap(replace(gap, total=0.02 * 24, row=0.2), torch.bfloat16, ALONE)


def test_one_unlikely_token_of_a_short_row_is_rounding_in_bfloat16() -> None:
    gap = SamplerGap(tokens=200, total=3.0, row=0.8, row_tokens=1, sample="s")
    require_small_gap(gap, torch.bfloat16, ALONE)
    with pytest.raises(SelfCheckError, match=r"0\.8 in this sample's row \(allowed: 0\.25\)"):
        require_small_gap(replace(gap, row_tokens=40), torch.bfloat16, ALONE)


def test_truncated_sampling_may_raise_a_log_prob_but_not_lower_it(tiny: Tiny) -> None:
    policy = tiny("qwen2")
    explained = -math.log(0.7)
    for by, least, most in ((explained + 1, 0.9, 1.4), (-1.0, 0.6, 1.01)):
        gap = gap_of(policy, *make(policy, (shifted(by),), top_p=0.7))
        assert gap is not None
        assert least < gap.total / gap.tokens < most
    gap = gap_of(policy, *make(policy, (shifted(3.0),), top_k=3))
    assert gap is not None
    assert gap.total == 0  # nothing is known of the probability that top_k leaves out


def test_replayed_rows_and_gold_answers_are_left_out(tiny: Tiny) -> None:
    policy = tiny("qwen2")
    assert gap_of(policy, *make(policy, (shifted(1),), origin="replay")) is None
    mixed = gap_of(policy, *make(policy, (shifted(0), unsampled)))
    assert mixed is not None
    assert (mixed.tokens, mixed.row < 1e-5) == (12, True)
    assert gap_of(policy, *make(policy, (unsampled,))) is None
    require_small_gap(None, policy.dtype, ALONE)


@strict
class Shifted:
    """Samples with the policy, and reports log-probs that are too large by 0.01."""

    def check(self, config: RolloutConfig) -> None:
        """Every setting is supported."""

    def build(self, policy: Policy) -> HfEngine:
        return ShiftedEngine(policy)


class ShiftedEngine(HfEngine):
    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[tuple[Piece, ...]]:
        return [tuple(map(shifted(0.01), group)) for group in super().generate(requests, sampling)]


TINY = """
task: {name: digits, options: {subtasks: [classify], train: 8, test: 4}}
policy: {build: {hidden_size: 16, layers: 1, heads: 2, kv_heads: 1, intermediate_size: 16, vision_width: 16, vision_layers: 1}}
rollout: {group_size: 2, max_tokens: 3}
algorithm: grpo  # its KL term needs groups without signal, too
stages: [{steps: 1, prompts_per_step: 1}]
eval: {limit: 1}
prefetch_threads: 0
"""


def test_a_stage_whose_first_step_has_no_signal_is_checked_at_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All rewards of the first step are equal, as those of a weak policy often are."""
    play = Stage.play

    def reward_later(stage: Stage, step: int, *rest: Any) -> list[Group]:
        return [
            replace(
                group,
                rollouts=tuple(
                    replace(rollout, reward=float(step > 1 and k))
                    for k, rollout in enumerate(group.rollouts)
                ),
            )
            for group in play(stage, step, *rest)
        ]

    monkeypatch.setattr(Stage, "play", reward_later)
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY)
    changes = (f"rollout.engine={__name__}:Shifted", "algorithm=gpg", "stages.0.steps=3")
    with pytest.raises(SelfCheckError, match=r"sampler_gap is 0\.01"):
        train(load_config(str(path), changes), out=tmp_path / "run")
    assert len((tmp_path / "run" / METRICS).read_text().splitlines()) == 1


class RowsElsewhere(Ranks):
    """Rank 0 of two, of which the other has a row more."""

    def sum_each(self, *values: float) -> list[float]:
        return [value + 1 for value in values]


def test_ranks_agree_on_the_batch_that_they_check(tiny: Tiny) -> None:
    batch, _ = make(tiny("qwen2"))
    empty = batch.take([])
    assert first_with_rows([empty, empty], ALONE) is None
    assert first_with_rows([empty, batch], ALONE) is batch
    assert first_with_rows([empty, batch], RowsElsewhere(size=2)) is empty


def test_a_run_stops_before_its_first_update(tmp_path: Path) -> None:
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY)
    engine = f"rollout.engine={__name__}:Shifted"
    with pytest.raises(SelfCheckError, match=r"sampler_gap is 0\.01"):
        train(load_config(str(path), (engine,)), out=tmp_path / "run")
    assert not (tmp_path / "run" / METRICS).exists()
