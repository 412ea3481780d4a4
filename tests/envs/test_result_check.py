"""Numbers that environments return."""

from __future__ import annotations

import numpy as np
import torch

from vlrft.envs.result_check import check_step
from vlrft.schema import Step


def test_a_step_of_python_numbers_is_returned_as_it_is() -> None:
    step = Step(reward=1, scores={"won": True, "turns": 3, "share": 0.5, "other": None})  # type: ignore[dict-item]
    assert check_step(step) is step


def test_scalars_of_numpy_and_torch_become_python_numbers() -> None:
    scores = {"won": np.bool_(True), "turns": np.int64(3), "share": torch.tensor(0.5)}
    step = check_step(Step(reward=np.float32(0.5), scores=scores, valid=np.bool_(False)))  # type: ignore[arg-type]
    assert step == Step(reward=0.5, scores={"won": 1.0, "turns": 3.0, "share": 0.5}, valid=False)
    assert {type(value) for value in (step.reward, *step.scores.values())} == {float}
    assert step.valid is False
