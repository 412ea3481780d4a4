"""Calls of tools, by their names, their arguments and the arguments' values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vlrft.grading import MAX_LIST, expects, read_json, with_opened
from vlrft.schema import DataError, Sample, Unreadable, best_score, explain_unreadable, no_grader

__all__ = ["form", "tool_calls"]

OPEN, CLOSE = "<tool_call>", "</tool_call>"
SPAN = 3.0  # the reward lies in [-SPAN, SPAN]


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call of a tool."""

    name: str
    arguments: Mapping[str, Any]


def _why(completion: str, sample: Sample) -> Unreadable | None:
    return None if _said(completion) is not None else Unreadable(why="no <tool_call> with JSON")


@best_score(SPAN)
@explain_unreadable(_why)
def tool_calls(completion: str, sample: Sample) -> float | None:
    """ToolRL's correctness reward in [-3, 3]; None when the gold answer is not a list of calls (tag `answer`: tool_calls).

    With gold calls G and said calls P, matched one to one so that the sum is largest,

        r = Σmin(names) / Σmax(names) + Σ_matched |keys_g ∩ keys_p| / |keys_g ∪ keys_p| + Σ_matched #equal values
        reward = 6 · r / (1 + |G| + Σ_G |keys_g|) − 3

    A call matches only one of its own name; two calls without arguments have all keys in common. The calls are the JSON of
    one `<tool_call>…</tool_call>` after the thinking: an object or a list of them, or one on each line, each with `name` and
    `parameters` (or `arguments`). Nothing readable is −3. The gold answer is such a list. Raises DataError for another one.
    Source: ToolRL (arXiv 2504.13958, section 3.3; `rlla.py`).
    """
    if not expects(sample, "tool_calls"):
        return None
    gold = _calls(sample.answer)
    if not gold:
        raise DataError(
            f"sample {sample.id}: gold answer {sample.answer!r} is not a list of calls; use mappings with name and parameters"
        )
    said = _said(completion)
    if said is None:
        return -SPAN
    attainable = 1 + len(gold) + sum(len(call.arguments) for call in gold)
    value = _common_names(gold, said) + _best_matching(gold, said)
    return 2 * SPAN * value / attainable - SPAN


@no_grader
def form(completion: str, sample: Sample) -> float | None:
    """1.0 for one `<think>…</think>`, then one `<tool_call>…</tool_call>`, with nothing but white space around them; else 0.0.
    Applies to what `tool_calls` applies to. Where the prompt opens the thinking (tag `opened`), the completion continues it.

    Source: ToolRL's format reward, which wants single line breaks between the tags and also knows answers with a
    `<response>`.
    """
    if not expects(sample, "tool_calls"):
        return None
    text = with_opened(completion, sample).strip()
    thought, _, call = (part.strip() for part in text.partition("</think>"))
    once = all(text.count(tag) == 1 for tag in ("<think>", "</think>", OPEN, CLOSE))
    return float(
        once and thought.startswith("<think>") and call.startswith(OPEN) and call.endswith(CLOSE)
    )


def _said(completion: str) -> Sequence[Call] | None:
    response = completion.rpartition("</think>")[2]
    if response.count(OPEN) != 1 or response.count(CLOSE) != 1:
        return None
    text = response.partition(OPEN)[2].partition(CLOSE)[0]
    return _calls(read_json(text)) if len(text) <= MAX_LIST else None


def _calls(value: Any) -> Sequence[Call] | None:
    """The calls of a value from JSON; None where it is none, or has anything else in it."""
    if isinstance(value, Mapping):
        value = [value]
    if not isinstance(value, list | tuple) or not value:
        return None
    calls = [_call(item) for item in value]
    found = [call for call in calls if call is not None]
    return found if len(found) == len(calls) else None


def _call(item: Any) -> Call | None:
    if not isinstance(item, Mapping) or not isinstance(item.get("name"), str):
        return None
    arguments = item.get("parameters", item.get("arguments", {}))
    if not isinstance(arguments, Mapping) or not all(isinstance(key, str) for key in arguments):
        return None
    return Call(name=item["name"], arguments=arguments)


def _common_names(gold: Sequence[Call], said: Sequence[Call]) -> float:
    """Of two multisets of names: the size of the intersection over that of the union."""
    one, other = Counter(c.name for c in gold), Counter(c.name for c in said)
    return (one & other).total() / (one | other).total()


def _best_matching(gold: Sequence[Call], said: Sequence[Call]) -> float:
    try:
        from scipy.optimize import linear_sum_assignment
    except ImportError:
        raise ImportError("tool_calls needs scipy: pip install scipy") from None

    table = [[_agreement(one, other) for other in said] for one in gold]
    return float(
        sum(table[g][p] for g, p in zip(*linear_sum_assignment(table, maximize=True), strict=True))
    )


def _agreement(gold: Call, said: Call) -> float:
    """The share of common keys plus the number of equal values; 0 for calls of different tools."""
    if gold.name != said.name:
        return 0.0
    keys = gold.arguments.keys() | said.arguments.keys()
    common = gold.arguments.keys() & said.arguments.keys()
    equal = sum(_same(gold.arguments[key], said.arguments[key]) for key in common)
    return (len(common) / len(keys) if keys else 1.0) + equal


def _same(one: Any, other: Any) -> bool:
    """Equality of JSON, in which true is not 1, at any depth."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return one == other and isinstance(one, bool) is isinstance(other, bool)
