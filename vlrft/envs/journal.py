"""A host's record of an episode in a worker process: enough to replay it in a new process and to compare the results."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vlrft.envs.failures import EnvFailure, env_of, moment_of
from vlrft.envs.process import Reply
from vlrft.envs.worker_main import Call
from vlrft.schema import Sample, Step
from vlrft.schema.short_message import short_message

REPLAY_RULE = "an environment may depend only on its sample and on the policy's answers"


@dataclass
class EpisodeRecord:
    """An open environment and the turns played in it so far."""

    sample: str  # its id
    content: bytes  # the sample, pickled
    process: int  # the index of its process in the pool
    live: bool = False  # whether its process has the environment in its latest state
    texts: list[str] = field(default_factory=list[str])  # the policy's, one per turn
    digests: list[bytes] = field(default_factory=list[bytes])  # of the start and of each turn
    done: bool = False
    failure: EnvFailure | None = None
    seconds: float = 0.0  # that its calls took, and so a replay of them
    movable: bool = True  # False: its replay in another process gave something else

    def next_call(self, handle: int, text: str | None) -> Call:
        """The next call: a step with the text, or the start of the environment where the text is None."""
        payload = self.content if text is None else text
        return Call(handle, self.sample, len(self.digests), payload)

    def replay_calls(self, handle: int) -> Iterator[Call]:
        """All calls so far, to be repeated in a new process."""
        payloads: tuple[bytes | str, ...] = (self.content, *self.texts)
        for turn in range(len(self.digests)):
            yield Call(handle, self.sample, turn, payloads[turn], replay=True)

    def record(self, reply: Reply) -> Any:
        """The reply's result, after adding it to the record; None for a replayed call with the same result as before."""
        call, self.live = reply.call, True
        if call.replay and reply.digest == self.digests[call.turn]:
            return None
        result = unpickle_result(reply)
        if call.payload is None:
            return result
        if isinstance(result, EnvFailure):
            self.failure = result
            return result
        self.digests.append(reply.digest)
        if isinstance(call.payload, str):
            self.texts.append(call.payload)
        self.done = isinstance(result, Step) and result.done
        return result


def new_records(
    handles: Sequence[int],
    samples: Sequence[Sample],
    records: Mapping[int, EpisodeRecord],
    processes: int,
) -> dict[int, EpisodeRecord]:
    """A record for each new handle, with the process assigned to it.

    Environments of one sample share a process: the one that already has an environment of that sample, else the one with
    the fewest running episodes. `records`: those of the environments that are open already.
    """
    process_of = {r.sample: r.process for r in records.values()}
    running = Counter(r.process for r in records.values() if not r.done and r.failure is None)
    contents: dict[int, bytes | EnvFailure] = {}
    added: dict[int, EpisodeRecord] = {}
    for handle, sample in zip(handles, samples, strict=True):
        if id(sample) not in contents:
            contents[id(sample)] = _pickle_sample(sample)
        content = contents[id(sample)]
        if isinstance(content, EnvFailure):
            added[handle] = EpisodeRecord(sample.id, b"", 0, failure=content)
            continue
        process = process_of.setdefault(sample.id, min(range(processes), key=running.__getitem__))
        running[process] += 1
        added[handle] = EpisodeRecord(sample.id, content, process)
    return added


def _pickle_sample(sample: Sample) -> bytes | EnvFailure:
    try:
        return pickle.dumps(sample)
    except Exception as e:
        return EnvFailure(
            f"{env_of(sample.id)} cannot run in another process, its sample cannot be sent there: {short_message(e)}"
        )


def unpickle_result(reply: Reply) -> Any:
    """The result, or an EnvFailure if it cannot be unpickled here or belongs to a replay that gave another result."""
    sample = reply.call.sample
    if not reply.content:
        problem = (
            f"was replayed in a new process, and its result differed {moment_of(reply.call.turn)}"
        )
        return EnvFailure(f"{env_of(sample)} {problem}; {REPLAY_RULE}")
    try:
        return pickle.loads(reply.content)
    except Exception as e:
        return EnvFailure(
            f"{env_of(sample)} gave a result that only its own process can read: {short_message(e)}"
        )
