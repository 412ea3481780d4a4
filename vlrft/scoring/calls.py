"""One reward over many completions: the calls that its form asks for, made here, on an event loop, or in workers.

Scoring gives the answers their names and weights; a call that fails stands as its exception in place of an answer.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from vlrft.plugins.references import load_attribute
from vlrft.plugins.reward_signature import RewardSignature, signature_of
from vlrft.schema import IMAGE, RewardError, Sample
from vlrft.workers.worker import Workers

Outcome = Any
"""What a call returned, or the exception in place of it."""


class Answer(NamedTuple):
    """What a reward may read of one rollout."""

    completion: str
    sample: Sample
    ids: tuple[int, ...] = ()  # action tokens [T], for a reward that reads them


def calls_of(form: RewardSignature, groups: Sequence[Sequence[int]]) -> list[Sequence[int]]:
    """Which answers go into which call, given the numbers of those of each group."""
    if form.scope == "rollout":
        return [[k] for own in groups for k in own]
    if form.scope == "group":
        return list(groups)
    return [[k for own in groups for k in own]]


def start(
    function: Callable[..., Any],
    form: RewardSignature,
    calls: Sequence[Sequence[Answer]],
    *,
    reference: str | None = None,
    workers: Workers | None = None,
    seconds: float = 0.0,
    stop: bool = True,
) -> Callable[[], list[Outcome]]:
    """Begins what can run beside other things; the result waits for the outcomes, one a call.

    `workers`: the calls are made there, found again by `reference`, each with `seconds`. `stop`: calls after one that
    failed need not be made.
    """
    if workers is not None:
        assert reference is not None
        sent = [(reference, form.strings, own) for own in calls]
        return _beside(
            lambda: workers.map(remote, sent, seconds, loads=[reference], stop=stop),
            workers.interrupt,
        )
    if form.asynchronous:
        gathered = _gather([ask(function, form, own) for own in calls])
        return asyncio.run_coroutine_threadsafe(gathered, _loop(os.getpid())).result
    return lambda: _one_by_one(function, form, calls, stop)


def ask(function: Callable[..., Any], form: RewardSignature, answers: Sequence[Answer]) -> Any:
    """One call with what the form says; of an asynchronous one, the coroutine."""
    if form.scope == "rollout":
        return function(completion=answers[0].completion, sample=answers[0].sample)
    completions = [a.completion for a in answers]
    if form.scope == "group":
        return function(completions=completions, sample=answers[0].sample)
    if form.scope == "batch":
        return function(completions=completions, samples=[a.sample for a in answers])
    return function(**_columns(form, answers))


def once(function: Callable[..., Any], form: RewardSignature, answers: Sequence[Answer]) -> Any:
    """One call, waited for."""
    found = ask(function, form, answers)
    if form.asynchronous:
        found = asyncio.run_coroutine_threadsafe(found, _loop(os.getpid())).result()
    return found.tolist() if hasattr(found, "tolist") else found


def remote(reference: str, strings: bool, answers: Sequence[Answer]) -> Any:
    """One call in a worker."""
    function, form = found_again(reference, strings)
    return once(function, form, answers)


@cache
def found_again(reference: str, strings: bool) -> tuple[Callable[..., Any], RewardSignature]:
    """The function and its form, in a worker."""
    function: Any = load_attribute(reference)
    return function, replace(signature_of(function), strings=strings)


def _one_by_one(
    function: Callable[..., Any],
    form: RewardSignature,
    calls: Sequence[Sequence[Answer]],
    stop: bool,
) -> list[Outcome]:
    outcomes: list[Outcome] = []
    if stop and form.scope == "rollout":  # the most frequent case, and the one that has to be fast
        try:
            for ((completion, sample, _),) in calls:
                outcomes.append(function(completion=completion, sample=sample))
        except Exception as e:
            outcomes += [e] * (len(calls) - len(outcomes))
        return outcomes
    for own in calls:
        try:
            outcomes.append(ask(function, form, own))
        except Exception as e:
            outcomes.append(e)
            if stop:
                outcomes += [e] * (len(calls) - len(outcomes))
                break
    return outcomes


async def _gather(waiting: Sequence[Coroutine[Any, Any, Any]]) -> list[Outcome]:
    return list(await asyncio.gather(*waiting, return_exceptions=True))


@cache
def _loop(process: int) -> asyncio.AbstractEventLoop:
    """The process's one event loop, so that what a reward keeps between calls (a session, a lock) stays usable."""
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


def _beside(
    work: Callable[[], list[Outcome]], interrupt: Callable[[], None]
) -> Callable[[], list[Outcome]]:
    """Runs in a thread; the result joins it. Ctrl-C interrupts it, which would else go on to its end."""
    found: list[list[Outcome]] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()

    def join() -> list[Outcome]:
        try:
            thread.join()
        except KeyboardInterrupt:
            interrupt()
            raise
        return found[0]

    return join


def _columns(form: RewardSignature, answers: Sequence[Answer]) -> dict[str, Any]:
    """The keywords of a TRL reward function: those that it names, or all.

    Raises RewardError for a column that it needs and no sample has.
    """
    rows = [_row(a.sample) for a in answers]
    names = dict.fromkeys(name for row in rows for name in row)
    found: dict[str, Any] = {name: [row.get(name) for row in rows] for name in names}
    if "solution" not in found:
        found["solution"] = found["answer"]
    pictured = any(a.sample.images for a in answers)
    found |= {
        "prompts": [_conversation(a.sample, pictured) for a in answers],
        "completions": [
            a.completion if form.strings else [{"role": "assistant", "content": a.completion}]
            for a in answers
        ],
        "completion_ids": [list(a.ids) for a in answers],
        "trainer_state": None,
        "log_extra": lambda column, values: None,
        "log_metric": lambda name, value: None,
    }
    missing = sorted(form.needs - set(found))
    if missing:
        raise RewardError(f"asks for {', '.join(missing)}; there is {', '.join(sorted(found))}")
    return found if form.rest else {k: v for k, v in found.items() if k in form.wants}


def _row(sample: Sample) -> Mapping[str, Any]:
    """The sample as a row of a TRL data set."""
    row: dict[str, Any] = {**sample.info, **sample.tags, "id": sample.id, "answer": sample.answer}
    if sample.images:
        row["images"] = list(sample.images)
    if len(sample.images) == 1:
        row["image"] = sample.images[0]
    return row


def _conversation(sample: Sample, pictured: bool) -> list[dict[str, Any]]:
    """The prompt as TRL has it: texts, or lists of parts in a batch with images."""
    images = iter(sample.images)
    messages: list[dict[str, Any]] = []
    for message in sample.messages:
        parts = [
            {"type": "image", "image": next(images)}
            if part is IMAGE
            else {"type": "text", "text": part}
            for part in message.content
        ]
        plain = "".join(part for part in message.content if isinstance(part, str))
        messages.append({"role": message.role, "content": parts if pictured else plain})
    return messages
