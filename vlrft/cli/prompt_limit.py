"""`vlrft data prepare --model`: prompts that are too long for a model, found without its weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vlrft.config import PolicyConfig, RolloutConfig
from vlrft.data import Row
from vlrft.data.clips import ClipTimes
from vlrft.schema import DataError, Sample, Task
from vlrft.schema.errors import ConfigError
from vlrft.vision.video.frames import FrameRule

if TYPE_CHECKING:
    from vlrft.policy.chat import Chat


@dataclass(frozen=True, kw_only=True)
class PromptLimit:
    """The most tokens of a prompt, images and videos included, and the chat that counts them. `model`: its folder or hub id;
    `frames`: those of a video that are seen. Each video is measured once."""

    model: str
    max_tokens: int
    chat: Chat
    frames: FrameRule
    _times: ClipTimes = field(default_factory=ClipTimes, init=False)

    def facts(self) -> dict[str, object]:
        """All that decides which prompts are too long, for the manifest of prepared data."""
        resize = self.chat.resize
        pixels = (
            {"min_pixels": resize.min_pixels, "max_pixels": resize.max_pixels} if resize else {}
        )
        return {"model": self.model, "max_prompt_tokens": self.max_tokens, **pixels}

    def find_problem(self, row: Row, sample: Sample) -> str | None:
        """`prompt too long: 1254 tokens (391 of images)`, or another problem of the prompt; None without one. Raises ConfigError for pictures where the model has no image
        processor that tells their tokens."""
        from vlrft.rollout.long_prompts import find_long_prompt

        if row.pictures and self.chat.resize is None:
            raise ConfigError(
                [
                    f"policy.model={self.model}: {row.id} has a picture, whose tokens cannot be counted: the model takes text "
                    "only, or its image processor resizes pictures in a way of its own"
                ]
            )
        try:
            defect = find_long_prompt(
                row, sample, self.chat, self.max_tokens, self.frames, self._times
            )
        except DataError as e:
            return f"prompt cannot be made: {e}"
        return None if defect is None else f"{defect.reason}: {defect.detail}"


def load_prompt_limit(
    task: Task, policy: PolicyConfig, max_tokens: int | None, frames: FrameRule
) -> PromptLimit:
    """The limit for a model, None: as a run's default; its tokenizer and image processor are loaded. Raises ConfigError."""
    from vlrft.policy.checkpoint_adapter import exact_policy
    from vlrft.policy.load import load_chat

    if task.env is not None:
        raise ConfigError(
            [f"--model: prompts of task {task.name} grow in its environment; leave the option out"]
        )
    return PromptLimit(
        model=str(policy.model),
        max_tokens=RolloutConfig().max_prompt_tokens if max_tokens is None else max_tokens,
        chat=load_chat(exact_policy(policy)[0]),
        frames=frames,
    )
