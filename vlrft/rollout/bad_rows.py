"""Rows that a run cannot use are found before its first step: gold answers, pictures, and prompts that are too long.

`task.on_bad` says what happens then: `error` refuses the run, `skip` leaves the rows out. Only tasks that read rows have any.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from math import sqrt

from vlrft.data import Defect, Row, RowSamples
from vlrft.data.pictures import measure_picture
from vlrft.policy.chat import Chat
from vlrft.rollout.task import LoadedTask
from vlrft.schema import IMAGE, DataError, Resize, Sample
from vlrft.schema.counted import counted
from vlrft.scoring.graders import STRICT
from vlrft.vision.boxes import resized_size
from vlrft.vision.limits import MAX_RATIO

TEMPLATE_TOKENS = 256  # more than a chat template adds to a text
PREPARE = "vlrft data prepare lists them and leaves them out"
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


def check_pictures(loaded: LoadedTask) -> LoadedTask:
    """The task without rows of which a picture is missing or has a broken header. Data that were prepared have been checked,
    every picture to its last pixel, and are not looked at.

    Raises DataError where there are such rows and they are not to be skipped.
    """
    samples = loaded.samples
    if not isinstance(samples, RowSamples) or samples.prepared:
        return loaded
    found: dict[int, Defect] = {}
    for index, row in enumerate(samples.rows):
        try:
            for picture in row.pictures:
                measure_picture(picture)
        except DataError as e:
            found[index] = Defect(id=row.id, reason="image missing or unreadable", detail=str(e))
    first = next(iter(found.values()), "")
    number = f"{len(found)} of {len(samples)} rows have a picture that cannot be read"
    return _without(loaded, found, f"{number}, the first is {first}; {PREPARE}")


def check_prompts(
    loaded: LoadedTask, chat: Chat, limit: int, count: int | None = None
) -> LoadedTask:
    """The task without rows whose prompts have more than `limit` tokens (`rollout.max_prompt_tokens`), images included.

    Looks at the first `count` rows (None: all). A token has at least one byte, and an image no more tokens than the bounds of
    the image processor allow: few texts become ids, and few pictures are opened, whose headers alone are read.
    Raises DataError where there are such rows and they are not to be skipped.
    """
    if not isinstance(loaded.samples, RowSamples) or loaded.task.env is not None:
        return loaded
    rows = loaded.samples.rows
    pairs = zip(rows, loaded.samples.without_images(), strict=True)
    looked_at = islice(pairs, None if loaded.on_bad == "skip" else count)
    defects = (find_long_prompt(row, sample, chat, limit) for row, sample in looked_at)
    found = {k: defect for k, defect in enumerate(defects) if defect is not None}
    first = next(iter(found.values()), None)
    number = "1 prompt is" if len(found) == 1 else f"{len(found)} prompts are"
    return _without(
        loaded,
        found,
        f"{number} longer than rollout.max_prompt_tokens={limit}: the first is {first.id if first else ''} with "
        f"{first.detail if first else ''}; raise the limit, lower policy.max_pixels",
    )


def find_long_prompt(row: Row, sample: Sample, chat: Chat, limit: int) -> Defect | None:
    """The defect of a row whose prompt has more than `limit` tokens, images included, or whose pictures have no readable
    size where that decides; None for any other. `sample`: of the row, without its images."""
    resize = chat.resize
    most = 1 if resize is None else _most_tokens(resize)  # of an image
    places = sum(part is IMAGE for message in sample.messages for part in message.content)
    images = places * (most - 1)
    if _bytes(sample) + TEMPLATE_TOKENS + images <= limit:
        return None
    tokens = chat.count_text_tokens(sample.messages, name=sample.id)
    if tokens + images <= limit:
        return None
    in_images = places
    if resize is not None and tokens <= limit:
        try:
            in_images = sum(_image_tokens(measure_picture(p), resize) for p in row.pictures)
        except (DataError, ValueError) as e:
            return Defect(id=row.id, reason="image missing or unreadable", detail=str(e))
    length = tokens - places + in_images
    if length <= limit:
        return None
    of_images = f"{in_images} of images" if in_images > places else "without images"
    return Defect(id=row.id, reason="prompt too long", detail=f"{length} tokens ({of_images})")


def _most_tokens(resize: Resize) -> int:
    """The most tokens of an image; a long one may exceed the bound of pixels, as its shorter side has at least one patch."""
    longest = resize.factor * sqrt(MAX_RATIO * resize.max_pixels)
    return int(max(resize.max_pixels, longest) / resize.factor**2) + 1


def _image_tokens(size: tuple[int, int], resize: Resize) -> int:
    width, height = resized_size(*size, resize.min_pixels, resize.max_pixels, resize.factor)
    return width * height // resize.factor**2


def _bytes(sample: Sample) -> int:
    texts = (part for m in sample.messages for part in m.content if isinstance(part, str))
    return sum(len(text.encode(errors="replace")) for text in texts)


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
    return f"{counted(len(defects), 'row')} left out (task.on_bad=skip): {listed}; the first is {defects[0]}"
