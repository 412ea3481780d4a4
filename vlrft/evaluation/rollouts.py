"""Rollouts of an evaluation: greedy, or several answers to each sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vlrft.config import EvalConfig, RolloutConfig
from vlrft.distributed.ranks import ALONE, Ranks
from vlrft.distributed.sharding import gather_groups, shard_by_size
from vlrft.policy.chat import Chat
from vlrft.rollout.engines import RolloutEngine, Sampling
from vlrft.rollout.play import drop_failed, play
from vlrft.rollout.prompt_size import prompt_size
from vlrft.rollout.seeds import seed_from
from vlrft.rollout.task import LoadedTask
from vlrft.schema import Group, Sample

GREEDY = EvalConfig()


def play_evaluation(
    loaded: LoadedTask,
    samples: Sequence[Sample],
    engine: RolloutEngine,
    chat: Chat,
    rollout: RolloutConfig,
    decoding: EvalConfig = GREEDY,
    ranks: Ranks = ALONE,
    progress: float = 1.0,
) -> list[Group]:
    """Plays samples with the decoding of an evaluation; returns one group per sample, in order, on every rank. The seed
    of an answer depends only on its sample and its number. `progress`: see `score_groups`.

    Raises EnvError for an environment that failed where `task.env.on_error` is `raise`; otherwise the failed rollout is
    in its group with its error.
    """
    sampling = replace(
        Sampling.of(rollout),
        temperature=decoding.temperature,
        top_p=decoding.top_p,
        top_k=0,
        max_tokens=decoding.max_tokens or rollout.max_tokens,
    )
    sizes = [prompt_size(sample, chat.resize) for sample in samples]
    shards = shard_by_size(sizes, ranks.size)
    shard = [samples[i] for i in shards[ranks.rank]]
    answers = range(decoding.answers)
    seeds = [[seed_from("eval", sample.id, k) for k in answers] for sample in shard]
    groups = play(loaded, shard, engine, chat, sampling, seeds=seeds, progress=progress)
    groups = gather_groups(groups, samples, shards, ranks)
    if loaded.env.on_error == "raise":
        drop_failed(groups, loaded.env)
    return groups
