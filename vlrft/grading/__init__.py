"""What strict graders are made of: reading an answer out of a completion, and comparing answers. No torch."""

from vlrft.grading.reading import (
    MAX_ANSWER,
    expects,
    plain,
    read_answer,
    read_box,
    read_integer,
    read_letter,
)

__all__ = [
    "MAX_ANSWER",
    "expects",
    "plain",
    "read_answer",
    "read_box",
    "read_integer",
    "read_letter",
]
