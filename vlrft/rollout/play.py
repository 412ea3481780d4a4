"""`play`: many episodes against one rollout engine, turn by turn. A sample without an environment is one turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from vlrft.config import EnvConfig
from vlrft.distributed.phases import phase, work_on
from vlrft.envs import EnvFailure, Host
from vlrft.policy.chat import Chat
from vlrft.rollout.engines import Limits, RolloutEngine, Sampling, StreamingEngine
from vlrft.rollout.episode import Episode, number_samples
from vlrft.rollout.stream import stream_episodes
from vlrft.rollout.task import LoadedTask
from vlrft.rollout.turns import PromptRenderer, exceeds_limit, sample_completions
from vlrft.schema import (
    ENVIRONMENT,
    Group,
    Piece,
    Prompt,
    Rollout,
    Sample,
)
from vlrft.schema.errors import EnvError
from vlrft.scoring.rewards import score_groups

Respond = Callable[[Sequence[Episode], Sequence[Prompt]], Sequence[Piece]]
"""The policy's side of one turn: a piece for each episode, given its prompt."""

UNLIMITED = Limits()


def play(
    loaded: LoadedTask,
    samples: Sequence[Sample],
    engine: RolloutEngine,
    chat: Chat,
    sampling: Sampling,
    *,
    seeds: Sequence[Sequence[int]],
    policy_step: int = 0,
    progress: float = 1.0,
) -> list[Group]:
    """Plays each sample once for each of its seeds and scores the rollouts; returns one group per sample, in order.

    With an engine that streams each episode runs on its own; with any other all advance together, turn by turn. Rollouts
    of a sample with equal prompts share one prefill, and no rollout depends on what else is played. A rollout whose environment
    failed is in its group, with the reward it had until then and its error; `drop_failed` treats it as the config says.
    `progress`: see `score_groups`.

    Raises DataError, RewardError, and the errors that the task, its rewards and the engine raise.
    """
    work_on([sample.id for sample in samples])
    pairs = [
        (sample, seed)
        for sample, sample_seeds in zip(samples, seeds, strict=True)
        for seed in sample_seeds
    ]
    played, seeds_played = [s for s, _ in pairs], [seed for _, seed in pairs]
    has_env = loaded.task.env is not None
    numbers = [k for sample_seeds in seeds for k in range(len(sample_seeds)) if has_env]
    if isinstance(engine, StreamingEngine):
        episodes = stream_episodes(loaded, played, seeds_played, numbers, engine, chat, sampling)
    else:
        episodes = start_episodes(loaded, played, seeds_played, numbers)

        def respond(running: Sequence[Episode], prompts: Sequence[Prompt]) -> Sequence[Piece]:
            return sample_completions(running, prompts, engine, sampling)

        run_episodes(episodes, loaded.host, chat, respond, loaded.env, sampling.limits)
    engine.finish()
    rollouts = iter([episode.rollout(policy_step) for episode in episodes])
    groups = [[next(rollouts) for _ in sample_seeds] for sample_seeds in seeds]
    scored_groups = score_groups(groups, loaded.rewards, progress)
    return [
        Group(sample=sample, rollouts=tuple(scored))
        for sample, scored in zip(samples, scored_groups, strict=True)
    ]


@phase("environment")
def start_episodes(
    loaded: LoadedTask,
    samples: Sequence[Sample],
    seeds: Sequence[int],
    numbers: Sequence[int] = (),
) -> list[Episode]:
    """One episode per sample, with its environment started. `numbers`: those of the rollouts in their groups; empty: all 0."""
    episodes: list[Episode] = []
    starts = loaded.host.start(number_samples(samples, numbers))
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
    prompt_limits: Limits = UNLIMITED,
) -> None:
    """Advances all episodes turn by turn until each has ended; their environments are closed even after an error.

    `prompt_limits`: an episode ends before a later turn whose prompt would exceed them; the engine refuses a first prompt
    that does.
    """
    try:
        while running := [e for e in episodes if e.observation is not None]:
            renderer = PromptRenderer(chat)
            prompts = [renderer.render(episode) for episode in running]
            pairs = list(zip(running, prompts, strict=True))
            for k, (episode, prompt) in reversed(list(enumerate(pairs))):
                if exceeds_limit(episode, prompt, prompt_limits):
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
