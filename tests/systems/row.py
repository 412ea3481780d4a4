"""A row of the catalogue as its config makes it, tried in milliseconds: what it pays, what it draws, what it trains on."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from tests.systems.rollouts import WEIGHTS
from vlrft.advantages.rows import RowAdvantages, estimate_step
from vlrft.algorithms import Algorithm
from vlrft.config import Config, StageConfig
from vlrft.config.load import resolve_config
from vlrft.config.systems import all_systems, system_tree
from vlrft.objectives import make_loss_batch
from vlrft.rollout.task import load_rewards, load_task
from vlrft.schema import Group, Piece, Prompt, Rollout, Sample, TrainingRow
from vlrft.scoring.rewards import score_groups
from vlrft.scoring.weighted import WeightedReward
from vlrft.selection.prompt_sampler import find_prompt_strategy
from vlrft.selection.prompt_strategies import PromptStrategy
from vlrft.trainer.stage_settings import find_choices

LONGEST = 16


@dataclass(frozen=True, kw_only=True)
class Row:
    """The last stage of a row's config. `strategy`: in place of the config's."""

    config: Config
    folder: Path
    strategy: PromptStrategy

    @staticmethod
    def of(number: int, folder: Path, changes: Mapping[str, Any] | None = None) -> Row:
        """The row, with other fields of its entry in the catalogue, such as `config`."""
        system = replace(all_systems()[number], **(changes or {}))
        config = resolve_config(system_tree(system), f"system:{number}")
        strategy = find_prompt_strategy(config.stages[-1].prompts, "prompts")
        return Row(config=config, folder=folder, strategy=strategy)

    @property
    def stage(self) -> StageConfig:
        return self.config.stages[-1]

    @property
    def algorithms(self) -> list[Algorithm]:
        return [algorithm for algorithm, _ in find_choices(self.config)]

    @property
    def algorithm(self) -> Algorithm:
        return self.algorithms[-1]

    def table(self, *records: tuple[str, Any]) -> list[Sample]:
        """The samples that the row's task makes of a table with these gold answers, each of a kind."""
        rows = [{"question": f"q{i}?", "kind": k, "answer": a} for i, (k, a) in enumerate(records)]
        path = self.folder / "train.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        options = {**self.stage.task.options, "data": str(path)}
        return list(load_task(replace(self.stage.task, options=options), "train").samples)

    def paid(self, sample: Sample, *texts: str) -> list[float]:
        """The rewards of a group of completions."""
        return [
            rollout.reward for rollout in score_groups([_group(sample, texts)], self.rewards)[0]
        ]

    @property
    def rewards(self) -> Sequence[WeightedReward]:
        assert self.stage.task.rewards is not None
        return load_rewards(self.stage.task.rewards)

    def advantages(self, groups: Sequence[Group], done: float = 0.0) -> list[RowAdvantages]:
        """Those of the groups [P][G][rows][tokens], when the share `done` of the stage is done."""
        estimator = self.algorithm.at(done).estimator
        return estimate_step(
            groups, estimator, weights=WEIGHTS, max_tokens=LONGEST, progress=done
        ).rows

    def token_loss(
        self, ratio: float, advantage: float, *, reference: float = 0.0, done: float = 0.0
    ) -> float:
        """The loss of a step of one token: of this ratio to the old policy, with a log-prob that is `reference` above the
        reference policy's."""
        logprob, one = (
            torch.full((1, 1), -1.0, dtype=torch.float64),
            torch.zeros(1, dtype=torch.long),
        )
        batch = make_loss_batch(
            mask=torch.ones(1, 1, dtype=torch.bool),
            advantages=torch.full_like(logprob, advantage),
            group=one,
            rollout=one,
            valid=(True,),
            max_tokens=LONGEST,
            old_logprobs=logprob - math.log(ratio),
            ref_logprobs=logprob - reference,
            entropy=torch.zeros_like(logprob),
        )
        loss, _ = self.algorithm.at(done).loss(logprob, batch)
        return float(loss)


def _group(sample: Sample, texts: Sequence[str]) -> list[Rollout]:
    prompt = Prompt(ids=(1,))
    return [
        Rollout(
            sample=sample,
            rows=(TrainingRow(prompt=prompt, pieces=(Piece(ids=(2,), text=t, finish="stop"),)),),
        )
        for t in texts
    ]
