"""The model families pass the suite that family authors inherit."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import pytest
import torch

from vlrft.policy.families import all_families, vision_families
from vlrft.policy.policy import Policy
from vlrft.testing.family import FamilyConformance


class TestFamilies(FamilyConformance):
    @pytest.fixture(autouse=True, params=sorted(all_families()))
    def of_each_family(self, request: pytest.FixtureRequest) -> None:
        self.name = request.param


def shift_positions(*arguments: Any) -> Any:
    return torch.arange(len(arguments[1])).flip(0).expand(3, -1)


@pytest.mark.parametrize(
    ("method", "broken", "check"),
    [
        (
            "is_vision",
            lambda name: False,
            "test_adapters_are_in_both_parts_and_count_in_packed_log_probs",
        ),
        ("is_projector", lambda name: False, "test_parameters_belong_to_one_part"),
        ("positions", shift_positions, "test_text_after_a_prompt_does_not_change_its_positions"),
        (
            "positions",
            shift_positions,
            "test_packed_log_probs_and_gradients_are_those_of_transformers",
        ),
        (
            "decoder_arguments",
            lambda features, places: {},
            "test_packed_log_probs_and_gradients_are_those_of_transformers",
        ),
        (
            "decoder_arguments",
            lambda features, places: {},
            "test_greedy_completions_are_those_of_generate",
        ),
    ],
)
def test_the_suite_fails_for_a_careless_family(
    monkeypatch: pytest.MonkeyPatch, method: str, broken: Any, check: str
) -> None:
    """Such as one that leaves the features of deeper layers out."""

    class Broken(FamilyConformance):
        name = "qwen3_vl"

        @cached_property
        def policy(self) -> Policy:
            return self.load()

    suite = Broken()
    assert suite.policy.backbone.multimodal
    monkeypatch.setattr(vision_families()["qwen3_vl"], method, broken)
    with pytest.raises(AssertionError):
        getattr(suite, check)()
