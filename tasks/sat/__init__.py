"""SAT -> CV-Bench: spatial questions about a picture with a few options (VisualThinker-R1-Zero's setting).

Raw forms: SAT's `SAT_train.parquet` (image_bytes, question, answers, correct_answer), of which the
first 15,000 rows are taken, those with more than one image left out; and CV-Bench's `test_2d` and
`test_3d` parquet (idx, task, image, question, choices, answer, prompt, source). A released question
of training asks for the option's words, of CV-Bench for its letter; the clean prompt always for the
letter. `form: base` is the plain text for a model without chat training, and opens the thinking
itself; released, it holds a literal `<image>` behind the image, as the original does. SAT's options
are shuffled by `seed`; the original's are without one. Prepare SAT before training: its parquet keeps
every image in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import ascii_uppercase

from vlrft.data import Dataset, Row, read_prompt
from vlrft.grading.metrics import accuracy, accuracy_by_tag, macro_accuracy
from vlrft.schema import IMAGE, Message, Metric, Record, Sample, Task

from .figures import cvbench
from .rows import KINDS, Options, read


def sample(row: Row, options: Options) -> Sample:
    choices: Sequence[str] = row.info["choices"]
    letter = ascii_uppercase[choices.index(row.answer)]
    split: str = row.info["split"]
    released = options.prompt == "released"
    base = options.form == "base"
    name = options.prompt + ("_base" if base else f"_{split}" if released else "")
    question = row.question
    if released:
        question = row.info["prompt"] if split == "test" else _in_words(row.question, choices)
        if base and split == "train":
            question = f" {question}"  # where the image's mark was taken out
    lettered = "\n".join(f"({a}) {text}" for a, text in zip(ascii_uppercase, choices, strict=False))
    text = (
        read_prompt(__file__, name).replace("{options}", lettered).replace("{question}", question)
    )
    literal = "<image>" if base and released else ""
    asked = Message(role="plain" if base else "user", content=(IMAGE, literal + text))
    return Sample(
        id=row.id,
        messages=(asked,),
        answer=row.answer if released and split == "train" else letter,
        tags={
            **row.tags,
            "answer": "choice",
            "options": "\n".join(choices),
            **({"opened": "<think>"} if base else {}),
        },
        info=row.info,
    )


def gold(sample: Sample) -> str:
    """The completion that earns full marks, going on where the prompt stops."""
    opening = "" if "opened" in sample.tags else "<think>"
    return f"{opening}</think><answer>{sample.answer}</answer>"


def metrics(records: Sequence[Record], grader: str) -> Mapping[str, Metric]:
    """Accuracy over all (`total`), of each task, their mean, and CV-Bench's own score where the records
    are of CV-Bench."""
    found = {"total": accuracy(records, grader)}
    kinds = accuracy_by_tag(records, grader, "kind")
    if kinds:
        found |= {name: kinds[name] for name in KINDS if name in kinds}
        found["task_macro"] = macro_accuracy(records, grader, "kind")
        found["cvbench"] = cvbench(records, grader)
    return found


def _in_words(question: str, choices: Sequence[str]) -> str:
    """The released training question."""
    *first, last = choices
    listed = f"{', '.join(first)} or {last}" if first else last
    return f"Answer in natural language. {question} Choose between the following options: {listed}"


task = Task(
    name="sat",
    doc="SAT (train) -> CV-Bench (test): counting, relation, depth and distance, with options.",
    options=Options,
    splits=("train", "test"),
    load=Dataset(
        read=read, sample=sample, sources={"train": "array/SAT", "test": "nyu-visionx/CV-Bench"}
    ),
    rewards={"choice": 1.0, "format": 1.0},
    graders={"strict": ("choice",), "official": ("choice.cvbench",)},
    metrics=metrics,
    gold=gold,
)
