"""Building blocks of strict graders: reading the answer of a completion, and comparing answers. No torch."""

from vlrft.grading.boxed import read_boxed, strip_box
from vlrft.grading.detections import read_detections
from vlrft.grading.json_text import read_json
from vlrft.grading.kinds import KINDS
from vlrft.grading.math.answers import read_math
from vlrft.grading.math.comparison import equal_formulas, sandboxed_worker
from vlrft.grading.math.forms import MathAnswer
from vlrft.grading.math.gold import gold_answers, gold_texts
from vlrft.grading.math.mathematics import same_math
from vlrft.grading.math.sandbox import SandboxedWorker
from vlrft.grading.reading import (
    MAX_ANSWER,
    MAX_LIST,
    class_key,
    expects,
    join_accents,
    normalise_text,
    read_answer,
    read_integer,
    read_letter,
    why_no_answer,
    with_opened,
)
from vlrft.grading.written_boxes import (
    read_box,
    read_boxes,
    read_json_boxes,
    read_point,
    search_box,
)

__all__ = [
    "KINDS",
    "MAX_ANSWER",
    "MAX_LIST",
    "MathAnswer",
    "SandboxedWorker",
    "class_key",
    "equal_formulas",
    "expects",
    "gold_answers",
    "gold_texts",
    "join_accents",
    "normalise_text",
    "read_answer",
    "read_box",
    "read_boxed",
    "read_boxes",
    "read_detections",
    "read_integer",
    "read_json",
    "read_json_boxes",
    "read_letter",
    "read_math",
    "read_point",
    "same_math",
    "sandboxed_worker",
    "search_box",
    "strip_box",
    "why_no_answer",
    "with_opened",
]
