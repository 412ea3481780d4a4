"""Prompts that sampling would refuse are refused before a run spends time on the others."""

from __future__ import annotations

from itertools import islice

from vlrft.data import RowSamples
from vlrft.policy.chat import Chat
from vlrft.rollout.task import LoadedTask
from vlrft.schema import DataError, Sample

TEMPLATE_TOKENS = 256  # more than a chat template adds to a text


def refuse_long_prompts(
    loaded: LoadedTask, chat: Chat, limit: int, count: int | None = None
) -> None:
    """Raises DataError where the text of a first prompt alone has more than `limit` tokens (`rollout.max_prompt_tokens`).

    Looks at the first `count` samples (None: all) of a task that reads rows, and opens no image. A token has at least one
    byte, so that few texts have to become ids.
    """
    if not isinstance(loaded.samples, RowSamples) or loaded.task.env is not None:
        return
    lengths = {
        sample.id: tokens
        for sample in islice(loaded.samples.without_images(), count)
        if _bytes(sample) > limit - TEMPLATE_TOKENS
        if (tokens := chat.count_text_tokens(sample.messages, name=sample.id)) > limit
    }
    if lengths:
        first, tokens = next(iter(lengths.items()))
        number = "1 prompt is" if len(lengths) == 1 else f"{len(lengths)} prompts are"
        raise DataError(
            f"task {loaded.task.name}: {number} longer than rollout.max_prompt_tokens={limit}, without images: "
            f"the first is {first} with {tokens} tokens; raise the limit, or leave such rows out of the data"
        )


def _bytes(sample: Sample) -> int:
    texts = (part for m in sample.messages for part in m.content if isinstance(part, str))
    return sum(len(text.encode(errors="replace")) for text in texts)
