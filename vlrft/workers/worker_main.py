"""The other end of a worker's pipe: finds functions by their references, calls them, answers.

It runs in the worker's own process, started by `workers.Worker`, and ends with its caller.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from vlrft.plugins.references import load_attribute
from vlrft.schema.errors import WorkerError

GRACE_SECONDS = 2.0  # an orphan in the middle of a call ends itself so long after the call's limit
IDLE_SECONDS = 1.0  # how often an idle worker looks whether its caller still lives


def serve(descriptor: int, caller: int, memory: int | None) -> None:
    """The other end: answers calls until the caller is gone."""
    if memory is not None:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    os.dup2(2, 1)  # what a function prints is no result of the command
    pipe: Connection[Any, Any] = Connection(descriptor)
    silent = open(os.devnull, "w")  # noqa: SIM115 (faulthandler keeps it)
    try:
        for message in messages(pipe, caller):
            reference, args, seconds = pickle.loads(message)
            faulthandler.dump_traceback_later(seconds + GRACE_SECONDS, exit=True, file=silent)
            answer = _answer(reference, args)
            faulthandler.cancel_dump_traceback_later()
            pipe.send_bytes(answer)
    except (OSError, KeyboardInterrupt):
        return


def messages(pipe: Connection[Any, Any], caller: int) -> Iterator[bytes]:
    """What is said at the other end until the caller is gone."""
    with suppress(EOFError):
        while True:
            while not pipe.poll(IDLE_SECONDS):
                if os.getppid() != caller:
                    return
            yield pipe.recv_bytes()


def _answer(reference: str, args: tuple[Any, ...] | None) -> bytes:
    """(good, pickled answer or exception, its text); without arguments, only whether the reference leads anywhere."""
    try:
        function: Any = load_attribute(reference)
        found = None if args is None else function(*args)
        return pickle.dumps((True, _pickled(found), ""))
    except Exception as e:
        text = f"{type(e).__name__}: {e}"
        try:
            return pickle.dumps((False, _pickled(e), text))
        except WorkerError:
            return pickle.dumps((False, pickle.dumps(WorkerError(text)), text))


def _pickled(thing: object) -> bytes:
    """Pickled so that it can be read again; many exceptions can be written but not read."""
    try:
        content = pickle.dumps(thing)
        pickle.loads(content)
    except Exception as e:
        raise WorkerError(f"a {type(thing).__name__} cannot be sent between processes: {e}") from e
    return content
