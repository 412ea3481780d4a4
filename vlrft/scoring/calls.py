"""The calls of one reward function for many completions, made in this thread, on an event loop, or in workers.

`scoring.rewards` turns the results into named scores; a call that failed has its exception as its result.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from vlrft.plugins.references import load_attribute
from vlrft.plugins.reward_signature import RewardSignature, signature_of
from vlrft.schema import RewardError
from vlrft.scoring.reward_input import RewardInput
from vlrft.scoring.trl_columns import trl_columns
from vlrft.workers.worker import Workers

Outcome = Any
"""The return value of a call, or the exception that it raised."""


def split_into_calls(
    signature: RewardSignature, groups: Sequence[Sequence[int]]
) -> list[Sequence[int]]:
    """The indices of the inputs of each call. `groups`: the indices of the inputs of each group."""
    if signature.scope == "rollout":
        return [[k] for group in groups for k in group]
    if signature.scope == "group":
        return list(groups)
    return [[k for group in groups for k in group]]


def start_calls(
    function: Callable[..., Any],
    signature: RewardSignature,
    calls: Sequence[Sequence[RewardInput]],
    *,
    reference: str | None = None,
    workers: Workers | None = None,
    seconds: float | None = None,
    stop: bool = True,
) -> Callable[[], list[Outcome]]:
    """Starts the calls that can run concurrently, and returns a function that waits for the outcomes, one per call.

    `workers`: make the calls there, where the function is loaded by `reference`, each call with `seconds`; without workers those
    of an asynchronous function are cancelled after as many, if not None. `stop`: after a call that fails, the remaining calls
    need not be made.
    """
    if workers is not None:
        assert reference is not None
        assert seconds is not None
        arguments = [(reference, signature.strings, inputs) for inputs in calls]
        return _run_in_thread(
            lambda: workers.map(call_in_worker, arguments, seconds, loads=[reference], stop=stop),
            workers.interrupt,
        )
    if signature.asynchronous:
        coroutines = _gather([_await_reward(function, signature, x, seconds) for x in calls])
        return asyncio.run_coroutine_threadsafe(coroutines, _event_loop(os.getpid())).result
    return lambda: _call_here(function, signature, calls, stop)


def call_reward(
    function: Callable[..., Any], signature: RewardSignature, inputs: Sequence[RewardInput]
) -> Any:
    """One call with the arguments of its signature; for an asynchronous function, the coroutine."""
    step = {"progress": inputs[0].progress} if signature.progress else {}
    if signature.scope == "rollout":
        return function(completion=inputs[0].completion, sample=inputs[0].sample, **step)
    completions = [x.completion for x in inputs]
    if signature.scope == "group":
        return function(completions=completions, sample=inputs[0].sample, **step)
    if signature.scope == "batch":
        return function(completions=completions, samples=[x.sample for x in inputs], **step)
    return function(**trl_columns(signature, inputs))


def call_and_wait(
    function: Callable[..., Any], signature: RewardSignature, inputs: Sequence[RewardInput]
) -> Any:
    """One call's value, awaited if the function is asynchronous; arrays as lists."""
    if signature.asynchronous:
        coroutine = _await_reward(function, signature, inputs)
        value = asyncio.run_coroutine_threadsafe(coroutine, _event_loop(os.getpid())).result()
        if isinstance(value, BaseException):
            raise value
    else:
        value = call_reward(function, signature, inputs)
    return value.tolist() if hasattr(value, "tolist") else value


def call_in_worker(reference: str, strings: bool, inputs: Sequence[RewardInput]) -> Any:
    """One call, to be run in a worker process."""
    function, signature = load_reward(reference, strings)
    return call_and_wait(function, signature, inputs)


@cache
def load_reward(reference: str, strings: bool) -> tuple[Callable[..., Any], RewardSignature]:
    """The function and its signature, loaded in a worker process."""
    function: Any = load_attribute(reference)
    return function, replace(signature_of(function), strings=strings)


def _call_here(
    function: Callable[..., Any],
    signature: RewardSignature,
    calls: Sequence[Sequence[RewardInput]],
    stop: bool,
) -> list[Outcome]:
    outcomes: list[Outcome] = []
    if stop and signature.scope == "rollout" and not signature.progress:  # frequent: must be fast
        try:
            for ((completion, sample, *_),) in calls:
                outcomes.append(function(completion=completion, sample=sample))
        except KeyboardInterrupt:
            raise
        except BaseException as e:  # sys.exit in a reward must not end the run without a word
            outcomes += [e] * (len(calls) - len(outcomes))
        return outcomes
    for inputs in calls:
        try:
            outcomes.append(call_reward(function, signature, inputs))
        except KeyboardInterrupt:
            raise
        except BaseException as e:
            outcomes.append(e)
            if stop:
                outcomes += [e] * (len(calls) - len(outcomes))
                break
    return outcomes


async def _await_reward(
    function: Callable[..., Any],
    signature: RewardSignature,
    inputs: Sequence[RewardInput],
    seconds: float | None = None,
) -> Outcome:
    """The outcome of an asynchronous function, or after `seconds` a RewardError, whether or not the function ends when it is
    cancelled."""
    call = asyncio.ensure_future(_call_caught(function, signature, inputs))
    await asyncio.wait([call], timeout=seconds)
    if call.done():
        return call.result()
    call.cancel()
    return RewardError(f"took longer than {seconds:g} s; raise its time_limit or make it faster")


async def _call_caught(
    function: Callable[..., Any], signature: RewardSignature, inputs: Sequence[RewardInput]
) -> Outcome:
    """An exception that is no `Exception`, such as SystemExit, would end the event loop, and its caller would wait for ever."""
    try:
        return await call_reward(function, signature, inputs)
    except BaseException as e:
        return e


async def _gather(coroutines: Sequence[Coroutine[Any, Any, Any]]) -> list[Outcome]:
    return list(await asyncio.gather(*coroutines))


@cache
def _event_loop(process: int) -> asyncio.AbstractEventLoop:
    """The only event loop of the process, so that a session or a lock that a reward keeps between calls stays usable."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="vlrft rewards", daemon=True)
    thread.start()

    def close() -> None:
        if os.getpid() == process:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(1.0)
            if not loop.is_running():
                loop.close()

    atexit.register(close)
    return loop


def _run_in_thread(
    work: Callable[[], list[Outcome]], interrupt: Callable[[], None]
) -> Callable[[], list[Outcome]]:
    """Starts the work in a thread, and returns a function that waits for it. Ctrl-C during the wait calls `interrupt`,
    since the thread would otherwise run to its end."""
    outcomes: list[list[Outcome]] = []
    thread = threading.Thread(target=lambda: outcomes.append(work()))
    thread.start()

    def join() -> list[Outcome]:
        try:
            thread.join()
        except KeyboardInterrupt:
            interrupt()
            raise
        return outcomes[0]

    return join
