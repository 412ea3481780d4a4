"""Importance correction of an algorithm's terms: its weights, and what they leave as it is."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from vlrft.algorithms import ALGORITHMS, find_algorithm
from vlrft.objectives import LossBatch, Needs, Terms, make_loss_batch
from vlrft.objectives.clipped_ratio import ClippedRatio
from vlrft.objectives.correction import Correction
from vlrft.schema.errors import ConfigError
from vlrft.testing.objective import ObjectiveConformance, random_step

NAN = float("nan")


def batch(sampled: list[list[float]] | None) -> LossBatch:
    """Two rows of three and one tokens, whose old log-probs are all −0.5."""
    return make_loss_batch(
        mask=torch.tensor([[True, True, True], [True, False, False]]),
        advantages=torch.ones(2, 3, dtype=torch.float64),
        group=torch.tensor([0, 0]),
        rollout=torch.tensor([0, 1]),
        valid=(True,),
        max_tokens=3,
        sampled_logprobs=None if sampled is None else torch.tensor(sampled, dtype=torch.float64),
        old_logprobs=torch.full((2, 3), -0.5, dtype=torch.float64),
    )


def weights(correction: Correction, sampled: list[list[float]] | None) -> list[list[float]]:
    """The weight of each token."""
    terms = Terms(values=torch.ones(2, 3, dtype=torch.float64))
    return correction(terms, batch(sampled)).values.tolist()


def near(*numbers: float) -> list[object]:
    return [pytest.approx(x, abs=1e-12) for x in numbers]


GAPS = [
    [-0.5 - math.log(3), -0.5 - math.log(1.5), -0.5 + math.log(4)],
    [-0.5 - math.log(2.5), 9, 9],
]


def test_a_tokens_ratio_above_the_cap_is_truncated_to_it() -> None:
    assert weights(Correction(cap=2.0), GAPS) == [near(2, 1.5, 0.25), near(2, 1, 1)]


def test_a_tokens_ratio_above_the_cap_is_masked() -> None:
    assert weights(Correction(rule="mask", cap=2.0), GAPS) == [near(0, 1.5, 0.25), near(0, 1, 1)]


def test_the_ratio_of_a_sequence_is_the_geometric_mean_of_its_tokens() -> None:
    mean = (3 * 1.5 / 4) ** (1 / 3)
    found = weights(Correction(level="sequence", cap=2.0), GAPS)
    assert found == [near(mean, mean, mean), near(2, 1, 1)]
    masked = weights(Correction(level="sequence", rule="mask", cap=1.01), GAPS)
    assert masked == [near(0, 0, 0), near(0, 1, 1)]


def test_a_sequence_of_any_length_has_the_ratio_of_its_tokens_where_they_are_alike() -> None:
    one = random_step(Needs(), (2,))[1]
    old = one.advantages * 0
    alike = replace(one, old_logprobs=old, sampled_logprobs=old - 0.1)
    ratios = Correction(level="sequence").ratios(alike)
    torch.testing.assert_close(ratios[one.mask], torch.full_like(ratios[one.mask], math.exp(0.1)))


def test_tokens_that_were_not_sampled_have_weight_one_and_are_not_in_the_mean() -> None:
    known = [[-1.0, NAN, NAN], [NAN, NAN, NAN]]
    for level in ("token", "sequence"):
        correction = Correction(level=level)
        assert weights(correction, known) == [near(math.exp(0.5), 1, 1), near(1, 1, 1)]
    assert weights(Correction(), None) == [[1.0] * 3] * 2


def test_an_endless_ratio_stays_finite() -> None:
    rows = [[-1e6, -0.5, -0.5], [-0.5, 0, 0]]
    assert weights(Correction(cap=1e30), rows)[0][0] == pytest.approx(math.exp(20))


def test_the_share_of_touched_tokens_and_the_mean_weight_are_reported() -> None:
    observed = Correction()(Terms(values=torch.ones(2, 3)), batch(GAPS)).observed
    mask = batch(GAPS).mask
    assert float(observed["correction/touched"][mask].mean()) == 0.5
    assert float(observed["correction/weight"][mask].mean()) == pytest.approx(5.75 / 4)


@pytest.mark.parametrize(
    "name", sorted(n for n in ALGORITHMS if ALGORITHMS[n].answers == "sampled")
)
@pytest.mark.parametrize("level", ["token", "sequence"])
def test_where_the_sampler_is_the_old_policy_nothing_changes_by_a_bit(
    name: str, level: str
) -> None:
    plain = find_algorithm(name)
    corrected = find_algorithm({"name": name, "correction": {"level": level, "rule": "mask"}})
    logprobs, step = random_step(corrected.needs, (4, 4))
    step = replace(step, sampled_logprobs=step.old_logprobs)
    results = [
        algorithm.loss(logprobs.clone().requires_grad_(), step)[0]
        for algorithm in (plain, corrected)
    ]
    assert torch.equal(*results)
    for result in results:
        result.backward()  # type: ignore[no-untyped-call]


@dataclass(frozen=True, kw_only=True)
class Corrected:
    """A clipped ratio with a correction after it, as `Algorithm.loss` applies it."""

    correction: Correction

    @property
    def needs(self) -> Needs:
        return Needs(old_logprobs=True)

    def __call__(self, logprobs: Float[Tensor, "B T"], batch: LossBatch) -> Terms:
        return self.correction(ClippedRatio()(logprobs, batch), batch)


class TestTokenTruncate(ObjectiveConformance):
    def objective(self) -> Corrected:
        return Corrected(correction=Correction(cap=1.05))


class TestSequenceMask(ObjectiveConformance):
    def objective(self) -> Corrected:
        return Corrected(correction=Correction(level="sequence", rule="mask", cap=1.02))


def test_a_config_gives_a_correction_as_a_mapping_and_null_takes_it_away() -> None:
    some = find_algorithm({"name": "gpg", "correction": {"level": "sequence", "cap": 3}})
    assert some.correction == Correction(level="sequence", cap=3)
    assert some.needs.old_logprobs
    assert "sequence" in some.describe()["correction"]
    assert find_algorithm({"name": "gpg", "correction": None}).correction is None
    assert find_algorithm({"name": "gpg", "correction": {}}).correction == Correction()


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("token", "algorithm.correction: expected a mapping of level, rule, cap, got 'token'"),
        ({"cap": 0.5}, "algorithm.correction.cap: 0.5 is out of range; allowed: at least 1"),
        ({"level": "word"}, "algorithm.correction.level"),
    ],
)
def test_a_wrong_correction_is_one_line(value: object, line: str) -> None:
    with pytest.raises(ConfigError) as error:
        find_algorithm({"name": "gpg", "correction": value})
    (mistake,) = error.value.mistakes
    assert mistake.startswith(line)


def test_the_former_place_of_the_correction_is_refused_with_the_present_one() -> None:
    with pytest.raises(ConfigError, match=r"did you mean algorithm\.correction"):
        find_algorithm({"name": "gpg", "regularize": {"correction": "token"}})
