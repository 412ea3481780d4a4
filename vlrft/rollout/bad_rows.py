"""Rows that a run cannot use are found before its first step: gold answers, pictures, and prompts that are too long.

`task.on_bad` says what happens then: `error` refuses the run, `skip` leaves the rows out. Only tasks that read rows have any.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from vlrft.data import Defect, Row, RowSamples
from vlrft.data.clips import ClipTimes
from vlrft.data.pictures import measure_picture
from vlrft.policy.chat import Chat
from vlrft.rollout.long_prompts import (
    BAD_PICTURE,
    BAD_VIDEO,
    NO_ROOM,
    find_long_prompt,
    find_many_images,
)
from vlrft.rollout.task import LoadedTask
from vlrft.schema import DataError, Sample
from vlrft.schema.pluralize import pluralize
from vlrft.scoring.graders import STRICT

PREPARE = "vlrft data prepare lists them and leaves them out"
PREPARE_AGAIN = "restore the file, or prepare the data again (vlrft data prepare --overwrite)"
UNREADABLE = {BAD_PICTURE: "a picture", BAD_VIDEO: "a video"}
CROWDED = "images that do not fit policy.max_prompt_pixels"
SKIP = "task.on_bad=skip trains without them"


def check_gold_answers(loaded: LoadedTask) -> LoadedTask:
    """The task without rows whose gold answers the strict grader cannot read. Looks at all rows, and opens no picture.

    Raises DataError where there are such rows and they are not to be skipped.
    """
    if not isinstance(loaded.samples, RowSamples):
        return loaded
    found: dict[int, Defect] = {}
    zero_scores = dict.fromkeys(loaded.task.env_scores, 0.0)
    for index, row in enumerate(loaded.samples.rows):
        try:
            sample = loaded.samples.make_sample(row)
        except DataError as e:
            if loaded.on_bad == "error":
                raise
            found[index] = Defect(id=row.id, reason="no sample", detail=str(e))
            continue
        try:
            loaded.graders.grade(STRICT, "", sample, zero_scores)
        except DataError as e:
            found[index] = Defect(id=sample.id, reason="gold answer unreadable", detail=str(e))
    first = next(iter(found.values()), None)
    return _without(
        loaded,
        found,
        f"{len(found)} of {len(loaded.samples)} gold answers cannot be read, the first: "
        f"{first.detail if first else ''}; {PREPARE}",
    )


def check_pictures(loaded: LoadedTask, times: ClipTimes | None = None) -> LoadedTask:
    """The task without rows of which a picture is missing or has a broken header, or a video cannot be measured. Data that
    were prepared have been checked, every picture to its last pixel, and are not looked at. `times`: of the videos that were
    measured before; None: none was.

    Raises DataError where there are such rows and they are not to be skipped.
    """
    samples = loaded.samples
    if not isinstance(samples, RowSamples) or samples.prepared:
        return loaded
    found: dict[int, Defect] = {}
    times = times or ClipTimes()
    for index, row in enumerate(samples.rows):
        try:
            for picture in row.pictures:
                measure_picture(picture)
        except DataError as e:
            found[index] = Defect(id=row.id, reason=BAD_PICTURE, detail=str(e))
        try:
            for clip in row.videos:
                times.measure(clip)
        except DataError as e:
            found[index] = Defect(id=row.id, reason=BAD_VIDEO, detail=str(e))
    first = next(iter(found.values()), "")
    kind = "video" if all(d.reason == BAD_VIDEO for d in found.values()) else "picture"
    number = f"{len(found)} of {len(samples)} rows have a {kind} that cannot be read"
    return _without(loaded, found, f"{number}, the first is {first}; {PREPARE}")


def check_prompts(
    loaded: LoadedTask,
    chat: Chat,
    limit: int,
    count: int | None = None,
    *,
    max_images: int | None = None,
    times: ClipTimes | None = None,
) -> LoadedTask:
    """The task without rows whose prompts have more than `limit` tokens (`rollout.max_prompt_tokens`), images and videos
    included, or more than `max_images` images (`rollout.max_images`).

    Looks at the first `count` rows (None: all). A token has at least one byte, and an image no more tokens than the bounds of
    the image processor allow: few texts become ids, and few pictures are opened, whose headers alone are read. Of each video the
    packets are read, once, and no frame is decoded. `times`: of the videos that were measured before; None: none was.
    Raises DataError where there are such rows and they are not to be skipped.
    """
    if not isinstance(loaded.samples, RowSamples) or loaded.task.env is not None:
        return loaded
    if max_images is not None:
        loaded = _check_rows(
            loaded,
            count,
            lambda row, sample: find_many_images(row, sample, max_images),
            f"more images than rollout.max_images={max_images}",
            "raise the limit",
            verb=("has", "have"),
        )
    assert isinstance(loaded.samples, RowSamples)
    rule, measured = loaded.samples.frames, times or ClipTimes()
    return _check_rows(
        loaded,
        count,
        lambda row, sample: find_long_prompt(row, sample, chat, limit, rule, measured),
        f"longer than rollout.max_prompt_tokens={limit}",
        "raise the limit, lower policy.max_pixels",
        verb=("is", "are"),
    )


def _check_rows(
    loaded: LoadedTask,
    count: int | None,
    find: Callable[[Row, Sample], Defect | None],
    problem: str,
    advice: str,
    *,
    verb: tuple[str, str],
) -> LoadedTask:
    """The task without the rows of which `find` finds a defect. Looks at the first `count` (None: all), and at all where defects
    are skipped. `problem`, `advice`: of defects that have no words of their own here."""
    assert isinstance(loaded.samples, RowSamples)
    pairs = zip(loaded.samples.rows, loaded.samples.without_images(), strict=True)
    looked_at = islice(pairs, None if loaded.on_bad == "skip" else count)
    defects = (find(row, sample) for row, sample in looked_at)
    found = {k: defect for k, defect in enumerate(defects) if defect is not None}
    if not found:
        return loaded
    first = next(iter(found.values()))
    alike = sum(defect.reason == first.reason for defect in found.values())
    joint = " with"
    if kind := UNREADABLE.get(first.reason):
        verb, problem, joint = ("has", "have"), f"{kind} that cannot be read", ":"
        advice = PREPARE_AGAIN if loaded.samples.prepared else PREPARE
    elif first.reason == NO_ROOM:
        verb, problem, joint = ("has", "have"), CROWDED, ":"
        advice = ""  # the detail says what to change
    number = f"1 prompt {verb[0]}" if alike == 1 else f"{alike} prompts {verb[1]}"
    others = f" ({len(found)} cannot be used)" if alike < len(found) else ""
    where = f"the first is {first.id}{joint} {first.detail}"
    parts = [f"{number} {problem}{others}: {where}", *filter(None, [advice])]
    return _without(loaded, found, "; ".join(parts))


def _without(loaded: LoadedTask, found: Mapping[int, Defect], problem: str) -> LoadedTask:
    """The task without these rows of its samples. Raises DataError where they are not to be skipped, or are all."""
    if not found:
        return loaded
    assert isinstance(loaded.samples, RowSamples)
    if loaded.on_bad == "error":
        raise DataError(f"task {loaded.task.name}: {problem}; {SKIP}", [*map(str, found.values())])
    if len(found) == len(loaded.samples):
        raise DataError(f"task {loaded.task.name}: {problem}; no other row is there")
    samples = loaded.samples.without(found)
    print(f"task {loaded.task.name}: {count_left_out(list(found.values()))}", file=sys.stderr)
    return replace(loaded, samples=samples)


def count_left_out(defects: Sequence[Defect]) -> str:
    """One line: how many rows were left out, by reason, and the first of them."""
    reasons = Counter(defect.reason for defect in defects)
    listed = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
    return f"{pluralize(len(defects), 'row')} left out (task.on_bad=skip): {listed}; the first is {defects[0]}"
