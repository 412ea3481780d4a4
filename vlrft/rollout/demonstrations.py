"""Supervised warm-up through the same batch and engine: a group is one injected rollout, what the task's gold says."""

from __future__ import annotations

from collections.abc import Sequence

from vlrft.config import EnvConfig
from vlrft.policy.byte_cache import ByteCache
from vlrft.policy.chat import Chat
from vlrft.rollout.episode import Episode
from vlrft.rollout.gold import gold_turns
from vlrft.rollout.play import run_episodes, start_episodes
from vlrft.rollout.task import LoadedTask
from vlrft.schema import ENVIRONMENT, DataError, Group, Piece, Prompt, Rollout, Sample

GOLD_BYTES = 256 * 2**20  # of gold plays that a stage keeps


def play_demonstrations(samples: Sequence[Sample], loaded: LoadedTask, chat: Chat) -> list[Group]:
    """A group of one a sample, with reward 1: the gold answer, or the turns that gold plays in the environment.

    Raises DataError for a play that does not end where its gold does.
    """
    said = [gold_turns(loaded.task, sample) for sample in samples]
    episodes = start_episodes(samples, range(len(samples)), loaded.task, loaded.host)

    def say(going: Sequence[Episode], prompts: Sequence[Prompt]) -> list[Piece]:
        pieces: list[Piece] = []
        for episode in going:
            own = said[episode.seed]
            if episode.said == len(own):
                raise DataError(f"{episode.sample.id}: its gold play goes on behind its last turn")
            text = own[episode.said]
            pieces.append(Piece(ids=chat.answer_ids(text), text=text, finish="stop"))
        return pieces

    beyond = max(map(len, said), default=0) + 1  # no limit cuts a gold play
    run_episodes(episodes, loaded.host, chat, say, EnvConfig(max_turns=beyond))
    return [Group(sample=e.sample, rollouts=(_finished(e, said[e.seed]),)) for e in episodes]


def _finished(episode: Episode, said: Sequence[str]) -> Rollout:
    if episode.errors:
        raise DataError(f"the gold play of {episode.sample.id}: {episode.errors[ENVIRONMENT]}")
    if episode.said < len(said):
        raise DataError(f"{episode.sample.id}: its gold play ends before its last turn")
    episode.reward = 1.0
    return episode.rollout(origin="injected")


class DemonstrationCache:
    """Gold groups; what gold plays in an environment is played once while there is room to keep it."""

    def __init__(self) -> None:
        self._known = ByteCache[Group](GOLD_BYTES)

    def groups(self, samples: Sequence[Sample], loaded: LoadedTask, chat: Chat) -> list[Group]:
        """See `play_demonstrations`."""
        if loaded.task.env is None:
            return play_demonstrations(samples, loaded, chat)
        known = {s.id: self._known.get(s.id) for s in samples}
        fresh = [s for s in {s.id: s for s in samples}.values() if known[s.id] is None]
        found = {g.sample.id: g for g in play_demonstrations(fresh, loaded, chat)}
        for group in found.values():
            self._known.put(group.sample.id, group, count_bytes(group))
        return [known[s.id] or found[s.id] for s in samples]


def count_bytes(group: Group) -> int:
    """Bytes of its tokens and images, about."""
    rows = [row for r in group.rollouts for row in r.rows]
    ids = sum(len(row.prompt.ids) + sum(len(p.ids) for p in row.pieces) for row in rows)
    images = [
        i for row in rows for i in (*row.prompt.images, *(i for p in row.pieces for i in p.images))
    ]
    distinct = {image.key: image for image in images}
    return 8 * ids + sum(int(image.values.nbytes) for image in distinct.values())
