"""What a host keeps of an environment in another process: all it takes to play it again there, and to compare."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vlrft.envs.in_process import EnvFailure, about, moment, told
from vlrft.envs.process import Reply
from vlrft.envs.worker_main import Call
from vlrft.schema import Sample, Step

AGAIN = "it may depend on its sample and on what is said, and on nothing else"


@dataclass
class Record:
    """An open environment."""

    sample: str  # its id
    content: bytes  # the sample, pickled
    process: int
    stands: bool = False  # in its process, as it was left
    said: list[str] = field(default_factory=list[str])
    digests: list[bytes] = field(default_factory=list[bytes])  # of the start and of each turn
    over: bool = False
    failed: EnvFailure | None = None

    def next(self, handle: int, text: str | None) -> Call:
        """What it is to do first, or now: start, or take what was said."""
        said = self.content if text is None else text
        return Call(handle, self.sample, len(self.digests), said)

    def before(self, handle: int) -> Iterator[Call]:
        """What it has done so far, to be done again."""
        said: tuple[bytes | str, ...] = (self.content, *self.said)
        for turn in range(len(self.digests)):
            yield Call(handle, self.sample, turn, said[turn], again=True)

    def note(self, reply: Reply) -> Any:
        """The answer, kept in mind; None where what was done again was answered as before."""
        call, self.stands = reply.call, True
        if call.again and reply.digest == self.digests[call.turn]:
            return None
        answer = _read(reply, self.sample)
        if call.said is None:
            return answer
        if isinstance(answer, EnvFailure):
            self.failed = answer
            return answer
        self.digests.append(reply.digest)
        if isinstance(call.said, str):
            self.said.append(call.said)
        self.over = isinstance(answer, Step) and answer.done
        return answer


def deal(
    handles: Sequence[int], samples: Sequence[Sample], known: Mapping[int, Record], processes: int
) -> dict[int, Record]:
    """A new record a handle. Those of one sample share a process: where that sample is at play, or where fewest are."""
    homes = {r.sample: r.process for r in known.values()}
    at_play = Counter(r.process for r in known.values() if not r.over and r.failed is None)
    contents: dict[int, bytes | EnvFailure] = {}
    found: dict[int, Record] = {}
    for handle, sample in zip(handles, samples, strict=True):
        if id(sample) not in contents:
            contents[id(sample)] = _written(sample)
        content = contents[id(sample)]
        if isinstance(content, EnvFailure):
            found[handle] = Record(sample.id, b"", 0, failed=content)
            continue
        home = homes.setdefault(sample.id, min(range(processes), key=at_play.__getitem__))
        at_play[home] += 1
        found[handle] = Record(sample.id, content, home)
    return found


def _written(sample: Sample) -> bytes | EnvFailure:
    try:
        return pickle.dumps(sample)
    except Exception as e:
        return EnvFailure(
            f"{about(sample.id)} cannot be given its sample in another process: {told(e)}"
        )


def _read(reply: Reply, sample: str) -> Any:
    """What was answered. A Failed where it cannot be read here, or stands for something else than before."""
    if not reply.content:
        what = (
            f"was played again in a new process, and answered otherwise {moment(reply.call.turn)}"
        )
        return EnvFailure(f"{about(sample)} {what}; {AGAIN}")
    try:
        return pickle.loads(reply.content)
    except Exception as e:
        return EnvFailure(f"{about(sample)} answered what only its own process can read: {told(e)}")
