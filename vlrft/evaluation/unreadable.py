"""How many answers of an evaluation the strict grader could not read, or were cut at the length limit, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from vlrft.schema import Record

LISTED = 5  # reasons that are printed


def count_unreadable(records: Sequence[Record]) -> list[tuple[str, int]]:
    """Each reason with its number of answers, the most common one first."""
    return Counter(r.unreadable for r in records if r.unreadable).most_common()


def count_cut(records: Sequence[Record]) -> int:
    """The number of answers that were cut at the length limit."""
    return sum(record.truncated for record in records)


def unreadable_lines(records: Sequence[Record]) -> list[str]:
    """The counts as text: one line for both, and one for each of the most common reasons; none where both counts are 0."""
    reasons, cut, n = count_unreadable(records), count_cut(records), len(records)
    unreadable = sum(count for _, count in reasons)
    parts: list[str] = []
    if unreadable:
        parts.append(f"unreadable {unreadable} of {n}")
    if cut:
        both = sum(bool(record.unreadable) for record in records if record.truncated)
        limit = f", {both} of them unreadable" if unreadable else ""
        parts.append(f"cut (rollout.max_tokens) {cut} of {n}{limit}")
    if not parts:
        return []
    lines = [f"  {count} of {n}: {why}" for why, count in reasons[:LISTED]]
    if rest := sum(count for _, count in reasons[LISTED:]):
        lines.append(f"  {rest} of {n}: other reasons")
    return ["; ".join(parts), *lines]
