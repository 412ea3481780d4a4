"""The errors that vlrft raises on purpose."""

from __future__ import annotations

from typing import ClassVar


class VlrftError(Exception):
    """Root of the errors that vlrft raises on purpose; each kind also inherits the standard one it refines."""

    exit_code: ClassVar[int] = 1  # of the command; 2: what it was told is wrong


class DataError(VlrftError, ValueError):
    """A row, an image or a gold answer that cannot be used; names the sample."""


class RewardError(VlrftError, ValueError):
    """A reward that raised, or returned something that is no finite number; names the sample and the reward."""
