"""Environments and `play`: many of them in lock-step against one rollout engine. A single turn is the simplest one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from vlrft.chat import Chat
from vlrft.rollout import Request, RolloutEngine, Sampling
from vlrft.schema import (
    Env,
    Group,
    Observation,
    Piece,
    Prompt,
    PromptKey,
    Rollout,
    Sample,
    Step,
    Task,
)
from vlrft.schema import Sequence as Row
from vlrft.scoring import NamedReward, score_groups


class SingleTurn:
    """Shows the sample, takes one answer."""

    def __init__(self, sample: Sample) -> None:
        self.sample = sample

    def start(self) -> Observation:
        return Observation(messages=self.sample.messages, images=self.sample.images)

    def step(self, text: str) -> Step:
        return Step()

    def close(self) -> None:
        """Nothing is held."""


def seed_from(*parts: object) -> int:
    """A 63-bit seed that depends on every part and on nothing else."""
    digest = hashlib.sha256("\x1f".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


@dataclass
class _Play:
    """One rollout in the making."""

    sample: Sample
    index: int  # within its group
    seed: int
    env: Env
    observation: Observation | None
    rows: list[Row] = field(default_factory=list[Row])
    step_rewards: list[float] = field(default_factory=list[float])
    scores: dict[str, float | None] = field(default_factory=dict[str, "float | None"])

    def take(self, prompt: Prompt, piece: Piece) -> None:
        self.rows.append(Row(prompt=prompt, pieces=(piece,)))
        step = self.env.step(piece.text)
        self.step_rewards.append(step.reward)
        self.scores.update(step.scores)
        self.observation = step.observation

    def rollout(self, policy_step: int) -> Rollout:
        return Rollout(
            sample=self.sample,
            sequences=tuple(self.rows),
            reward=sum(self.step_rewards),
            scores=self.scores,
            step_rewards=tuple(self.step_rewards),
            policy_step=policy_step,
        )


def play(
    samples: Sequence[Sample],
    *,
    task: Task,
    rewards: Sequence[NamedReward],
    engine: RolloutEngine,
    chat: Chat,
    sampling: Sampling,
    seeds: Sequence[Sequence[int]],
    policy_step: int = 0,
) -> list[Group]:
    """Plays each sample once a seed and scores the rollouts; a group a sample, in order.

    Each turn renders the whole conversation anew: a row a turn. Rollouts that see the same prompt share its prefill.
    """
    make = task.env or SingleTurn
    plays: list[_Play] = []
    for sample, own in zip(samples, seeds, strict=True):
        for index, seed in enumerate(own):
            env = make(sample)
            start = env.start()
            plays.append(_Play(sample, index, seed, env, start))
    try:
        while active := [p for p in plays if p.observation is not None]:
            _turn(active, engine, chat, sampling)
    finally:
        for p in plays:
            p.env.close()
    played = iter([p.rollout(policy_step) for p in plays])
    groups = score_groups([[next(played) for _ in own] for own in seeds], rewards)
    return [Group(sample=s, rollouts=tuple(own)) for s, own in zip(samples, groups, strict=True)]


def _turn(active: Sequence[_Play], engine: RolloutEngine, chat: Chat, sampling: Sampling) -> None:
    """One completion for each active rollout; equal prompts of a sample become one request."""
    prompts: dict[tuple[str, int], Prompt] = {}  # an observation object is rendered once
    requests: dict[tuple[str, PromptKey], list[tuple[_Play, Prompt]]] = {}
    for p in active:
        assert p.observation is not None
        messages, images = p.observation.messages, p.observation.images
        shown = (p.sample.id, hash((messages, tuple(map(id, images)))))
        if shown not in prompts:
            prompts[shown] = chat.render(messages, images, name=p.sample.id)
        prompt = prompts[shown]
        requests.setdefault((p.sample.id, prompt.key), []).append((p, prompt))
    answers = engine.generate(
        [
            Request(
                id=sample,
                prompt=waiting[0][1],
                seeds=tuple(seed_from(p.seed, len(p.rows)) for p, _ in waiting),
            )
            for (sample, _), waiting in requests.items()
        ],
        sampling,
    )
    for waiting, pieces in zip(requests.values(), answers, strict=True):
        for (p, prompt), piece in zip(waiting, pieces, strict=True):
            p.take(prompt, piece)
