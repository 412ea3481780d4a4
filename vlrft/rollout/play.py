"""`play`: many episodes in lock-step against one rollout engine. A sample without an environment is one turn."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from vlrft.config import EnvConfig
from vlrft.envs import EnvFailure, Host
from vlrft.policy.chat import Chat
from vlrft.rollout.engines import Request, RolloutEngine, Sampling
from vlrft.rollout.episode import Episode
from vlrft.rollout.task import LoadedTask
from vlrft.schema import (
    ENVIRONMENT,
    Group,
    Observation,
    Piece,
    Prompt,
    PromptKey,
    Rollout,
    Sample,
)
from vlrft.schema.errors import EnvError, NonFiniteError
from vlrft.scoring.rewards import score_groups
from vlrft.tracing.phases import phase, work_on

Respond = Callable[[Sequence[Episode], Sequence[Prompt]], Sequence[Piece]]
"""The policy's side of one turn: a piece for each episode, given its prompt."""


def seed_from(*parts: object) -> int:
    """A 63-bit seed that depends on every part and on nothing else."""
    digest = hashlib.sha256("\x1f".join(map(str, parts)).encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def play(
    loaded: LoadedTask,
    samples: Sequence[Sample],
    engine: RolloutEngine,
    chat: Chat,
    sampling: Sampling,
    *,
    seeds: Sequence[Sequence[int]],
    policy_step: int = 0,
) -> list[Group]:
    """Plays each sample once for each of its seeds and scores the rollouts; returns one group per sample, in order.

    All episodes advance together, turn by turn; those with equal prompts share one prefill. A rollout whose environment
    failed is in its group, with the reward it had until then and its error; `drop_failed` treats it as the config says.

    Raises DataError, RewardError, and the errors that the task, its rewards and the engine raise.
    """
    work_on([sample.id for sample in samples])
    pairs = [
        (sample, seed)
        for sample, sample_seeds in zip(samples, seeds, strict=True)
        for seed in sample_seeds
    ]
    episodes = start_episodes(loaded, [s for s, _ in pairs], [seed for _, seed in pairs])

    def respond(running: Sequence[Episode], prompts: Sequence[Prompt]) -> Sequence[Piece]:
        return sample_completions(running, prompts, engine, sampling)

    limit = sampling.limits.max_prompt_tokens
    run_episodes(episodes, loaded.host, chat, respond, loaded.env, limit)
    engine.finish()
    rollouts = iter([episode.rollout(policy_step) for episode in episodes])
    groups = [[next(rollouts) for _ in sample_seeds] for sample_seeds in seeds]
    return [
        Group(sample=sample, rollouts=tuple(scored))
        for sample, scored in zip(samples, score_groups(groups, loaded.rewards), strict=True)
    ]


@phase("environment")
def start_episodes(
    loaded: LoadedTask, samples: Sequence[Sample], seeds: Sequence[int]
) -> list[Episode]:
    """One episode per sample, with its environment started."""
    episodes: list[Episode] = []
    starts = loaded.host.start(samples)
    for sample, seed, (handle, result) in zip(samples, seeds, starts, strict=True):
        episode = Episode(sample, seed, handle, keeps_turns=loaded.task.env is not None)
        if isinstance(result, EnvFailure):
            episode.fail(result)
        else:
            episode.observation = result
        episodes.append(episode)
    return episodes


def run_episodes(
    episodes: Sequence[Episode],
    host: Host,
    chat: Chat,
    respond: Respond,
    limits: EnvConfig,
    max_prompt_tokens: int | None = None,
) -> None:
    """Advances all episodes turn by turn until each has ended; their environments are closed even after an error.

    `max_prompt_tokens`: an episode ends before a later turn whose prompt would be longer; the engine refuses a first
    prompt that is longer.
    """
    try:
        while running := [e for e in episodes if e.observation is not None]:
            prompts = _render_prompts(running, chat)
            pairs = list(zip(running, prompts, strict=True))
            for k, (episode, prompt) in reversed(list(enumerate(pairs))):
                if episode.turns and len(prompt.ids) > (max_prompt_tokens or len(prompt.ids)):
                    episode.end("tokens")
                    del running[k], prompts[k]
            pieces = respond(running, prompts)
            actions = {e.handle: piece.text for e, piece in zip(running, pieces, strict=True)}
            with phase("environment"):
                results = host.step(actions)
            for episode, prompt, piece in zip(running, prompts, pieces, strict=True):
                episode.advance(prompt, piece, results[episode.handle], limits)
    finally:
        host.close([e.handle for e in episodes])


def _render_prompts(running: Sequence[Episode], chat: Chat) -> list[Prompt]:
    """The prompt of each episode's next turn; an observation that several episodes share is rendered once."""
    shared: dict[tuple[str, int], tuple[Observation, Prompt]] = {}
    prompts: list[Prompt] = []
    for episode in running:
        observation = episode.observation
        assert observation is not None
        if observation.follows:  # the context before it belongs to this episode alone
            prompts.append(episode.prompt(chat))
            continue
        content = observation.messages, tuple(map(id, observation.images))
        key = episode.sample.id, hash(content)
        if key not in shared:  # with the observation, so that the ids of its images are not reused
            shared[key] = observation, episode.prompt(chat)
        prompts.append(shared[key][1])
    return prompts


def sample_completions(
    running: Sequence[Episode],
    prompts: Sequence[Prompt],
    engine: RolloutEngine,
    sampling: Sampling,
) -> list[Piece]:
    """One completion for each episode; equal prompts of a sample become one request."""
    indices: dict[tuple[str, PromptKey], list[int]] = {}
    for k, (episode, prompt) in enumerate(zip(running, prompts, strict=True)):
        indices.setdefault((episode.sample.id, prompt.key), []).append(k)
    completions = engine.generate(
        [
            Request(
                id=sample,
                prompt=prompts[places[0]],
                seeds=tuple(seed_from(running[k].seed, running[k].turns) for k in places),
            )
            for (sample, _), places in indices.items()
        ],
        sampling,
    )
    by_episode: dict[int, Piece] = {}
    for places, pieces in zip(indices.values(), completions, strict=True):
        by_episode.update(zip(places, pieces, strict=True))
    in_order = [by_episode[k] for k in range(len(running))]
    _require_finite([episode.sample.id for episode in running], in_order)
    return in_order


def _require_finite(samples: Sequence[str], pieces: Sequence[Piece]) -> None:
    """Raises NonFiniteError where the policy gave a token of a completion a log-prob that is NaN or infinite."""
    broken = [
        sample
        for sample, piece in zip(samples, pieces, strict=True)
        if not math.isfinite(sum(piece.logprobs))
    ]
    if broken:
        raise NonFiniteError(
            f"sample {broken[0]}: log-probs of sampled tokens are not finite, in {len(broken)} of {len(pieces)} "
            "completions: the policy's weights are too large or not finite",
            samples=tuple(dict.fromkeys(broken)),
        )


def drop_failed(groups: Sequence[Group], limits: EnvConfig, min_group: int = 1) -> list[Group]:
    """The groups without the rollouts that `limits.on_error` excludes because their environment failed.

    A rollout whose environment failed to start has nothing to train on and is always dropped; so is a group with fewer
    than `min_group` rollouts left. Raises EnvError where `on_error` is `raise`.
    """
    kept: list[Group] = []
    for group in groups:
        errors = [r.errors[ENVIRONMENT] for r in group.rollouts if ENVIRONMENT in r.errors]
        if errors and limits.on_error == "raise":
            raise EnvError(f"{errors[0]}; task.env.on_error can also keep or drop such rollouts")
        if errors and limits.on_error == "drop_group":
            continue
        rollouts = [r for r in group.rollouts if _can_train(r, limits)]
        if len(rollouts) >= min_group:
            kept.append(replace(group, rollouts=tuple(rollouts)))
    return kept


def _can_train(rollout: Rollout, limits: EnvConfig) -> bool:
    if not rollout.rows:
        return False
    return limits.on_error == "keep" or ENVIRONMENT not in rollout.errors
