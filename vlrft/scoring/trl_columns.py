"""The arguments of a reward function that is written for TRL: the columns of its data set, prompts and completions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vlrft.plugins.reward_signature import RewardSignature
from vlrft.schema import IMAGE, VIDEO, RewardError, Sample, Slot
from vlrft.scoring.reward_input import RewardInput


def trl_columns(signature: RewardSignature, inputs: Sequence[RewardInput]) -> dict[str, Any]:
    """The keyword arguments of a TRL reward function: those that it names, or all.

    Raises RewardError for a required column that no sample has.
    """
    rows = [_trl_row(x.sample) for x in inputs]
    names = dict.fromkeys(name for row in rows for name in row)
    columns: dict[str, Any] = {name: [row.get(name) for row in rows] for name in names}
    if "solution" not in columns:
        columns["solution"] = [_as_written(answer) for answer in columns["answer"]]
    has_images = any(x.sample.images or x.sample.videos for x in inputs)
    columns |= {
        "prompts": [_trl_conversation(x.sample, has_images) for x in inputs],
        "completions": [
            x.completion if signature.strings else [{"role": "assistant", "content": x.completion}]
            for x in inputs
        ],
        "completion_ids": [list(x.ids) for x in inputs],
        "trainer_state": None,
        "log_extra": lambda column, values: None,
        "log_metric": lambda name, value: None,
    }
    if signature.progress:
        columns.setdefault("progress", inputs[0].progress)
    missing = sorted(signature.needs - set(columns))
    if missing:
        raise RewardError(
            f"needs {', '.join(missing)}; the samples have {', '.join(sorted(columns))}"
        )
    if signature.rest:
        return columns
    return {name: column for name, column in columns.items() if name in signature.wants}


def _trl_row(sample: Sample) -> Mapping[str, Any]:
    """The sample as a row of a TRL dataset."""
    row: dict[str, Any] = {**sample.info, **sample.tags, "id": sample.id, "answer": sample.answer}
    if sample.images:
        row["images"] = list(sample.images)
    if sample.videos:
        row["videos"] = [video.pictures for video in sample.videos]
    if len(sample.images) == 1:
        row["image"] = sample.images[0]
    return row


def _as_written(answer: Any) -> Any:
    """A gold answer as a data set has it: a number is a text there, and its reward functions search it; a list of boxes is
    a list."""
    return str(answer) if isinstance(answer, int | float) else answer


def _trl_conversation(sample: Sample, has_images: bool) -> list[dict[str, Any]]:
    """The prompt as TRL passes it: texts, or lists of parts if any sample of the batch has an image or a video."""
    images, videos = iter(sample.images), iter(sample.videos)

    def part_of(part: str | Slot) -> dict[str, Any]:
        if part is IMAGE:
            return {"type": "image", "image": next(images)}
        if part is VIDEO:
            return {"type": "video", "video": next(videos).pictures}
        return {"type": "text", "text": part}

    messages: list[dict[str, Any]] = []
    for message in sample.messages:
        parts = list(map(part_of, message.content))
        plain = "".join(part for part in message.content if isinstance(part, str))
        messages.append({"role": message.role, "content": parts if has_images else plain})
    return messages
