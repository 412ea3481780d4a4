"""Samples played as an evaluation plays them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from vlrft.config import EvalConfig, RolloutConfig
from vlrft.distributed.ranks import ALONE, Ranks
from vlrft.distributed.sharding import dealt, prompt_size
from vlrft.policy.chat import Chat
from vlrft.rollout.engines import RolloutEngine, Sampling
from vlrft.rollout.play import drop_failed, play, seed_from
from vlrft.rollout.task import LoadedTask
from vlrft.schema import Group, Sample

GREEDY = EvalConfig()


def player(
    loaded: LoadedTask,
    engine: RolloutEngine,
    chat: Chat,
    rollout: RolloutConfig,
    decoding: EvalConfig = GREEDY,
    ranks: Ranks = ALONE,
) -> Callable[[Sequence[Sample]], list[Group]]:
    """Plays samples as an evaluation does: greedily, or several answers each by seeds that depend on nothing but the
    sample and the answer's number."""
    sampling = replace(
        Sampling.of(rollout),
        temperature=decoding.temperature,
        top_p=decoding.top_p,
        top_k=0,
        max_tokens=decoding.max_tokens or rollout.max_tokens,
    )

    def answers(samples: Sequence[Sample]) -> list[Group]:
        def play_own(own: Sequence[int]) -> list[Group]:
            ids = [samples[i].id for i in own]
            return play(
                [samples[i] for i in own],
                task=loaded.task,
                rewards=loaded.rewards,
                engine=engine,
                chat=chat,
                sampling=sampling,
                seeds=[
                    [seed_from("eval", name, k) for k in range(decoding.answers)] for name in ids
                ],
                host=loaded.host,
                limits=loaded.env,
            )

        sizes = [prompt_size(sample, chat.resize) for sample in samples]
        groups = dealt(samples, play_own, ranks, sizes)
        if loaded.env.on_error == "raise":
            drop_failed(groups, loaded.env)
        return groups

    return answers
