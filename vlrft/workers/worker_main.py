"""The main loop of a worker process: imports functions by their references, calls them and sends the results.

`workers.worker.Worker` starts the process, which ends with its caller.
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
from vlrft.schema.errors import UnsendableError, WorkerError
from vlrft.schema.short_message import first_line, short_message
from vlrft.schema.terminal import guard_streams
from vlrft.workers.subprocess_pipe import end_session

GRACE_SECONDS = 2.0  # after a call's time limit, a process whose caller is gone exits
IDLE_SECONDS = 1.0  # between checks of an idle worker that its caller is alive


def serve(descriptor: int, caller: int) -> None:
    """Runs calls until the caller is gone, and then ends with all processes that they have started."""
    os.dup2(2, 1)  # stdout belongs to the command; prints of a function go to stderr
    guard_streams()
    pipe: Connection[Any, Any] = Connection(descriptor)
    devnull = open(os.devnull, "w")  # noqa: SIM115 (faulthandler keeps it)
    try:
        for message in messages(pipe, caller):
            reference, args, seconds = pickle.loads(message)
            faulthandler.dump_traceback_later(seconds + GRACE_SECONDS, exit=True, file=devnull)
            result = _call(reference, args)
            faulthandler.cancel_dump_traceback_later()
            pipe.send_bytes(result)
    except ConnectionError:  # the caller has ended before the result
        pass
    except (OSError, KeyboardInterrupt):
        return
    end_session()


def messages(pipe: Connection[Any, Any], caller: int) -> Iterator[bytes]:
    """The messages that arrive through the pipe until the caller is gone."""
    with suppress(EOFError, ConnectionError):
        while True:
            while not pipe.poll(IDLE_SECONDS):
                if os.getppid() != caller:
                    return
            yield pipe.recv_bytes()


def _call(reference: str, args: tuple[Any, ...] | None) -> bytes:
    """Pickled (succeeded, pickled result or exception, its text). With `args` None the function is only imported.

    An exception that is no `Exception`, such as SystemExit, is sent as an UnsendableError: raised in the caller it would
    end the caller.
    """
    try:
        function: Any = load_attribute(reference)
        result = None if args is None else function(*args)
        return pickle.dumps((True, _dump(result), ""))
    except BaseException as e:  # the process is in a session of its own, so no Ctrl-C reaches it
        text = short_message(e)
        if isinstance(e, Exception):
            with suppress(WorkerError):
                return pickle.dumps((False, _dump(e), text))
        return pickle.dumps((False, pickle.dumps(UnsendableError(text)), text))


def _dump(value: object) -> bytes:
    """Pickles a value that can also be unpickled: many exceptions cannot. Raises WorkerError."""
    try:
        content = pickle.dumps(value)
        pickle.loads(content)
    except BaseException as e:
        problem = f"a {type(value).__name__} cannot be sent between processes: {first_line(e)}"
        raise WorkerError(problem) from e
    return content
