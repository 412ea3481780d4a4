"""The datasets by name: where each is, how its columns are read, and which of its rows are held out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from vlrft.data import Cells
from vlrft.grading import read_boxed


@dataclass(frozen=True, kw_only=True)
class TextSet:
    """One dataset. `files`: other names that its table may have in a local folder."""

    hub: str | None  # id, or id:config
    splits: Mapping[str, str]  # ours -> the hub's; a set without any is split by hash
    answer: Callable[[Cells], Any]
    question: Callable[[Cells], str]
    files: tuple[str, ...] = ()
    kind: str = "math"
    tags: Callable[[Cells], Mapping[str, str]] = field(default=lambda cells: {})


def problem(cells: Cells) -> str:
    return str(cells["problem"] if cells.get("problem") is not None else cells["question"])


def answer(cells: Cells) -> Any:
    """A text, a number, or a list of texts, each of which is right. Raises ValueError if there is none."""
    cell = cells["answer"]
    if cell in (None, "", []):
        raise ValueError("no gold answer")
    return [str(a) for a in cell] if isinstance(cell, list) else cell


def zoo_answer(cells: Cells) -> str:
    """The answer of a row of SimpleRL-Zoo. Raises ValueError for the two rows that have none."""
    gold = (
        cells.get("gt_answer")
        or cells.get("answer")
        or (cells.get("extra_info") or {}).get("answer")
    )
    if not gold:
        raise ValueError("no gold answer")
    return str(gold)


def solution_box(cells: Cells) -> Any:
    """The answer column if there is one, else the last box of the solution. Raises ValueError if there is neither."""
    if cells.get("answer") is not None:
        return answer(cells)
    boxed = read_boxed(str(cells["solution"]))
    if boxed is None:
        raise ValueError("the solution has no \\boxed{} answer")
    return boxed


def gsm8k_answer(cells: Cells) -> str:
    """The text after the last ####."""
    text = str(cells["answer"])
    return text.rpartition("####")[2].strip().replace(",", "")


def dapo_question(cells: Cells) -> str:
    """The problem, without the instructions that surround it in the user's message."""
    text = str(
        cells["prompt"][0]["content"] if isinstance(cells["prompt"], list) else cells["prompt"]
    )
    head, tail = "\n\n", "\n\nRemember to put your answer"
    if text.startswith("Solve the following math problem") and tail in text:
        text = text.partition(head)[2].rpartition(tail)[0]
    return text.strip()


def dapo_answer(cells: Cells) -> str:
    model = cells.get("reward_model") or {}
    return str(model["ground_truth"] if "ground_truth" in model else cells["solution"])


def countdown_question(cells: Cells) -> str:
    numbers = ", ".join(map(str, cells["nums"]))
    return (
        f"Using the numbers {numbers}, each exactly once, with + - * / and brackets, write an "
        f"expression that equals {cells['target']}."
    )


def countdown_answer(cells: Cells) -> dict[str, Any]:
    return {"nums": [int(n) for n in cells["nums"]], "target": int(cells["target"])}


def level(cells: Cells) -> Mapping[str, str]:
    return {k: str(cells[k]) for k in ("level", "type", "subject") if cells.get(k) is not None}


PLAIN = TextSet(hub=None, splits={}, answer=answer, question=problem)


def _train(hub: str, **fields: Any) -> TextSet:
    return replace(PLAIN, **{"hub": hub, "splits": {"train": "train"}} | fields)


def _test(hub: str, split: str, **fields: Any) -> TextSet:
    return replace(PLAIN, hub=hub, splits={"test": split}, **fields)


BOTH = {"train": "train", "test": "test"}
SETS: Mapping[str, TextSet] = {
    "gsm8k": _train("openai/gsm8k:main", splits=BOTH, answer=gsm8k_answer),
    "asdiv": PLAIN,
    "math": _train(
        "DigitalLearningGmbH/MATH-lighteval", splits=BOTH, answer=solution_box, tags=level
    ),
    "math_lvl3to5": _train(
        "hkust-nlp/SimpleRL-Zoo-Data:simplelr_qwen_level3to5/", answer=zoo_answer, tags=level
    ),
    "math12k": _train("hiyouga/math12k", splits=BOTH),
    "open_s1": _train("knoveleng/open-s1", answer=solution_box),
    "open_rs": _train("knoveleng/open-rs", answer=solution_box),
    "dapo17k": _train(
        "BytedTsinghua-SIA/DAPO-Math-17k", answer=dapo_answer, question=dapo_question
    ),
    "deepscaler": _train("agentica-org/DeepScaleR-Preview-Dataset"),
    "countdown": _train(
        "Jiayi-Pan/Countdown-Tasks-3to4",
        answer=countdown_answer,
        question=countdown_question,
        kind="countdown",
        splits={},
    ),
    "aime24": _test("HuggingFaceH4/aime_2024", "train", files=("aime24_30", "aime")),
    "amc23_40": _test("knoveleng/AMC-23", "train"),
    "amc_83": TextSet(
        hub=None, splits={"test": "test"}, answer=answer, question=problem, files=("amc",)
    ),
    "math500": _test("HuggingFaceH4/MATH-500", "test", answer=solution_box, tags=level),
    "minerva": _test(
        "knoveleng/Minerva-Math", "train", answer=solution_box, files=("minerva_272",)
    ),
    "olympiadbench": _test(
        "knoveleng/OlympiadBench", "train", files=("olympiadbench_675", "olympiad_bench")
    ),
}
SUITE = (
    ("aime24", "aime"),
    ("amc_83", "amc"),
    ("math500", "math"),
    ("minerva", "minerva"),
    ("olympiadbench", "olympiad_bench"),
)
"""Our name and the split's of each set of Dr. GRPO's evaluation suite (hub: lkevinzc/math-eval; save_to_disk folders)."""


def held_out(question: str) -> bool:
    """Whether a row of a set without published splits is in the test split: one in ten, by the hash of its question (our
    choice)."""
    return hashlib.sha256(" ".join(question.split()).encode()).digest()[0] % 10 == 0
