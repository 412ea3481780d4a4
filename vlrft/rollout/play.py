"""Environments and `play`: many of them in lock-step against one rollout engine. A single turn is the simplest one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace

from vlrft.config import EnvConfig
from vlrft.envs import EnvFailure, Host, InProcess, SingleTurn
from vlrft.policy.chat import Chat
from vlrft.rollout.engines import Request, RolloutEngine, Sampling
from vlrft.rollout.episode import Episode
from vlrft.schema import (
    ENVIRONMENT,
    Group,
    Observation,
    Piece,
    Prompt,
    PromptKey,
    Rollout,
    Sample,
    Task,
)
from vlrft.schema.errors import EnvError
from vlrft.scoring.rewards import WeightedReward, score_groups
from vlrft.tracing.phases import phase

Say = Callable[[Sequence[Episode], Sequence[Prompt]], Sequence[Piece]]
"""What is said at one turn: a piece for each episode, behind its prompt."""


def seed_from(*parts: object) -> int:
    """A 63-bit seed that depends on every part and on nothing else."""
    digest = hashlib.sha256("\x1f".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def play(
    samples: Sequence[Sample],
    *,
    task: Task,
    rewards: Sequence[WeightedReward],
    engine: RolloutEngine,
    chat: Chat,
    sampling: Sampling,
    seeds: Sequence[Sequence[int]],
    policy_step: int = 0,
    host: Host | None = None,
    limits: EnvConfig | None = None,
) -> list[Group]:
    """Plays each sample once a seed and scores the rollouts; a group a sample, in order.

    `host`: where the environments are, this process unless given. A rollout whose environment failed is in its group,
    with what it earned until then and with its error; `drop_failed` does with it as the config says. Rollouts that see the
    same prompt share its prefill.
    """
    host = host or InProcess(task.env or SingleTurn)
    own = [(s, seed) for s, given in zip(samples, seeds, strict=True) for seed in given]
    episodes = start_episodes([s for s, _ in own], [seed for _, seed in own], task, host)
    limit = sampling.limits.max_prompt_tokens

    def say(going: Sequence[Episode], prompts: Sequence[Prompt]) -> Sequence[Piece]:
        return sample_completions(going, prompts, engine, sampling)

    run_episodes(episodes, host, chat, say, limits or EnvConfig(), limit)
    engine.finish()
    played = iter([e.rollout(policy_step) for e in episodes])
    found = score_groups([[next(played) for _ in given] for given in seeds], rewards)
    return [Group(sample=s, rollouts=tuple(rs)) for s, rs in zip(samples, found, strict=True)]


@phase("environment")
def start_episodes(
    samples: Sequence[Sample], seeds: Sequence[int], task: Task, host: Host
) -> list[Episode]:
    """An episode a sample, its environment started."""
    found: list[Episode] = []
    begun = host.start(samples)
    for sample, seed, (handle, shown) in zip(samples, seeds, begun, strict=True):
        episode = Episode(sample, seed, handle, keeps_turns=task.env is not None)
        if isinstance(shown, EnvFailure):
            episode.fail(shown)
        else:
            episode.observation = shown
        found.append(episode)
    return found


def run_episodes(
    episodes: Sequence[Episode],
    host: Host,
    chat: Chat,
    say: Say,
    limits: EnvConfig,
    max_prompt_tokens: int | None = None,
) -> None:
    """Turn by turn to the end of all of them; their environments are closed, whatever happens.

    `max_prompt_tokens`: a play that has begun ends before a longer prompt.
    """
    try:
        while going := [e for e in episodes if e.observation is not None]:
            prompts = _prompts(going, chat)
            for k, (episode, prompt) in reversed(list(enumerate(zip(going, prompts, strict=True)))):
                if episode.said and len(prompt.ids) > (max_prompt_tokens or len(prompt.ids)):
                    episode.end("tokens")
                    del going[k], prompts[k]
            pieces = say(going, prompts)
            said = {e.handle: piece.text for e, piece in zip(going, pieces, strict=True)}
            with phase("environment"):
                answers = host.step(said)
            for episode, prompt, piece in zip(going, prompts, pieces, strict=True):
                episode.take(prompt, piece, answers[episode.handle], limits)
    finally:
        host.close([e.handle for e in episodes])


def _prompts(going: Sequence[Episode], chat: Chat) -> list[Prompt]:
    """What each of them reads; an observation that several share is rendered once."""
    known: dict[tuple[str, int], tuple[Observation, Prompt]] = {}
    found: list[Prompt] = []
    for episode in going:
        seen = episode.observation
        assert seen is not None
        if seen.follows:  # what stands before it is the episode's own
            found.append(episode.prompt(chat))
            continue
        key = episode.sample.id, hash((seen.messages, tuple(map(id, seen.images))))
        if key not in known:  # the observation too: its images' ids stay its own
            known[key] = seen, episode.prompt(chat)
        found.append(known[key][1])
    return found


def sample_completions(
    going: Sequence[Episode],
    prompts: Sequence[Prompt],
    engine: RolloutEngine,
    sampling: Sampling,
) -> list[Piece]:
    """One completion for each episode; equal prompts of a sample become one request."""
    requests: dict[tuple[str, PromptKey], list[int]] = {}
    for k, (episode, prompt) in enumerate(zip(going, prompts, strict=True)):
        requests.setdefault((episode.sample.id, prompt.key), []).append(k)
    answers = engine.generate(
        [
            Request(
                id=sample,
                prompt=prompts[waiting[0]],
                seeds=tuple(seed_from(going[k].seed, going[k].said) for k in waiting),
            )
            for (sample, _), waiting in requests.items()
        ],
        sampling,
    )
    found: dict[int, Piece] = {}
    for waiting, pieces in zip(requests.values(), answers, strict=True):
        found.update(zip(waiting, pieces, strict=True))
    return [found[k] for k in range(len(going))]


def drop_failed(groups: Sequence[Group], limits: EnvConfig, least: int = 1) -> list[Group]:
    """The groups a step may train on: what `on_error` says of rollouts whose environment failed is done.

    A rollout that never began has nothing to train on and leaves its group in any case, a group that fewer than `least`
    are left of leaves the step. Raises EnvError with `raise`.
    """
    found: list[Group] = []
    for group in groups:
        errors = [r.errors[ENVIRONMENT] for r in group.rollouts if ENVIRONMENT in r.errors]
        if errors and limits.on_error == "raise":
            raise EnvError(f"{errors[0]}; task.env.on_error can also keep or drop such rollouts")
        if errors and limits.on_error == "drop_group":
            continue
        keeps = [r for r in group.rollouts if _stays(r, limits)]
        if len(keeps) >= least:
            found.append(replace(group, rollouts=tuple(keeps)))
    return found


def _stays(rollout: Rollout, limits: EnvConfig) -> bool:
    if not rollout.rows:
        return False
    return limits.on_error == "keep" or ENVIRONMENT not in rollout.errors
