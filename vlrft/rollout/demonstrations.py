"""Demonstrations for supervised warm-up: a group is one injected rollout of the task's gold answer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import groupby

from vlrft.config import EnvConfig
from vlrft.distributed.phases import work_on
from vlrft.policy.byte_cache import ByteCache
from vlrft.policy.chat import Chat
from vlrft.rollout.episode import Episode
from vlrft.rollout.gold import gold_turns
from vlrft.rollout.play import run_episodes, start_episodes
from vlrft.rollout.task import LoadedTask
from vlrft.schema import ENVIRONMENT, DataError, Group, Piece, Prompt, Rollout, Sample

CACHE_BYTES = 256 * 2**20  # limit of a stage's cached demonstrations in environments


def play_demonstrations(loaded: LoadedTask, samples: Sequence[Sample], chat: Chat) -> list[Group]:
    """One group of one rollout for each sample, with reward 1: the gold answer, or the gold turns played in the
    environment.

    Raises DataError for an episode that does not end with its last gold turn.
    """
    gold = [gold_turns(loaded.task, sample) for sample in samples]
    episodes = start_episodes(loaded, samples, range(len(samples)))  # the seed is the index

    def respond(running: Sequence[Episode], prompts: Sequence[Prompt]) -> list[Piece]:
        pieces: list[Piece] = []
        for episode in running:
            turns = gold[episode.seed]
            if episode.turns == len(turns):
                raise DataError(
                    f"{episode.sample.id}: the environment continues after the last turn of the gold answer"
                )
            text = turns[episode.turns]
            pieces.append(
                Piece(ids=chat.answer_ids(text, name=episode.sample.id), text=text, finish="stop")
            )
        return pieces

    limit = max(map(len, gold), default=0) + 1  # never cuts a gold answer
    run_episodes(episodes, loaded.host, chat, respond, EnvConfig(max_turns=limit))
    return [Group(sample=e.sample, rollouts=(_demonstration(e, gold[e.seed]),)) for e in episodes]


def _demonstration(episode: Episode, gold: Sequence[str]) -> Rollout:
    if episode.errors:
        raise DataError(
            f"{episode.sample.id}: the environment fails on the gold answer: {episode.errors[ENVIRONMENT]}"
        )
    if episode.turns < len(gold):
        raise DataError(
            f"{episode.sample.id}: the environment ends before the last turn of the gold answer"
        )
    episode.reward = 1.0
    return episode.rollout(origin="injected")


def learn_observations(groups: Sequence[Group], never: Collection[int]) -> list[Group]:
    """The demonstrations with text that environments inserted marked as sampled, so that it is trained on. Pieces with images
    stay as they are, and so do the tokens `never`, which the policy never samples."""
    return [
        replace(
            group,
            rollouts=tuple(_learn_inserted_text(rollout, never) for rollout in group.rollouts),
        )
        for group in groups
    ]


def _learn_inserted_text(rollout: Rollout, never: Collection[int]) -> Rollout:
    rows = tuple(
        replace(row, pieces=tuple(part for p in row.pieces for part in _learned_parts(p, never)))
        for row in rollout.rows
    )
    return replace(rollout, rows=rows)


def _learned_parts(piece: Piece, never: Collection[int]) -> list[Piece]:
    """An inserted piece in parts, of which those are sampled whose tokens the policy can sample; the longest has its text."""
    if piece.sampled or piece.images or not piece.ids:
        return [piece]
    runs = [(learned, tuple(ids)) for learned, ids in groupby(piece.ids, lambda i: i not in never)]
    longest = max(range(len(runs)), key=lambda k: len(runs[k][1]))
    return [
        replace(piece, ids=ids, sampled=learned, text=piece.text if k == longest else "")
        for k, (learned, ids) in enumerate(runs)
    ]


class DemonstrationCache:
    """Plays demonstrations; those in an environment are kept, up to `CACHE_BYTES`, and not played again."""

    def __init__(self) -> None:
        self._cache = ByteCache[Group](CACHE_BYTES)

    def play(self, loaded: LoadedTask, samples: Sequence[Sample], chat: Chat) -> list[Group]:
        """See `play_demonstrations`."""
        work_on([sample.id for sample in samples])
        if loaded.task.env is None:
            return play_demonstrations(loaded, samples, chat)
        cached = {s.id: self._cache.get(s.id) for s in samples}
        missing = [s for s in {s.id: s for s in samples}.values() if cached[s.id] is None]
        played = {g.sample.id: g for g in play_demonstrations(loaded, missing, chat)}
        for group in played.values():
            self._cache.put(group.sample.id, group, count_bytes(group))
        return [cached[s.id] or played[s.id] for s in samples]


def count_bytes(group: Group) -> int:
    """The approximate bytes of the group's tokens and distinct images."""
    rows = [row for r in group.rollouts for row in r.rows]
    ids = sum(len(row.prompt.ids) + sum(len(p.ids) for p in row.pieces) for row in rows)
    images = [
        i for row in rows for i in (*row.prompt.images, *(i for p in row.pieces for i in p.images))
    ]
    distinct = {image.key: image for image in images}
    return 8 * ids + sum(int(image.values.nbytes) for image in distinct.values())
