"""SAT -> CV-Bench: spatial questions about a picture with a few options (VisualThinker-R1-Zero's setting).

Raw forms: SAT's `SAT_train.parquet` (image_bytes, question, answers, correct_answer), of which the first 15,000 rows are
used, without those that have more than one image; and CV-Bench's `test_2d` and `test_3d` parquet (idx, task, image,
question, choices, answer, prompt, source), of which the jsonl files with the same names are copies without images. SAT's own
test (`SAT_test.parquet`: 150 questions about photographs, most of them about two) is evaluated with `options.data` at SAT
alone; next to CV-Bench's tables it is left out.

The released training question asks for the words of the option, CV-Bench's for its letter; the clean prompt always asks for
the letter. `form: base` is plain text for a model without chat training, and ends with the opened thinking tag. The released
base prompts and the released chat prompt of training have a literal `<image>` after the image, as the original does. SAT's
options are shuffled with `seed`; the original shuffles without a seed. Prepare SAT before training: reading its parquet
keeps every image in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import ascii_uppercase

from vlrft.data import Dataset, Row, fill_prompt, read_prompt
from vlrft.grading.metrics import accuracy, accuracy_by_tag, macro_accuracy
from vlrft.schema import IMAGE, Message, Metric, Record, Sample, Task

from .metrics import cvbench
from .rows import KINDS, LAYOUTS, Options
from .synthetic import SYNTHETIC


def sample(row: Row, options: Options) -> Sample:
    choices: Sequence[str] = row.info["choices"]
    letter = ascii_uppercase[choices.index(row.answer)]
    split: str = row.info["split"]
    released = options.prompt == "released"
    base = options.form == "base"
    name = options.prompt + ("_base" if base else f"_{split}" if released else "")
    question = row.question
    if released:
        question = row.info["prompt"] if split == "test" else _ask_for_words(row.question, choices)
        if base and split == "train":
            question = f" {question}"  # the original removes the image's mark and keeps the space
        elif split == "train":
            question = f"<image> {question}"  # there it keeps both, after the image itself
    lettered = "\n".join(f"({a}) {text}" for a, text in zip(ascii_uppercase, choices, strict=False))
    text = fill_prompt(read_prompt(__file__, name), options=lettered, question=question)
    literal = "<image>" if base and released else ""
    message = Message(
        role="plain" if base else "user", content=(*[IMAGE] * len(row.pictures), literal + text)
    )
    return Sample(
        id=row.id,
        messages=(message,),
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
    """A completion that earns full marks; it continues a prompt that has opened the thinking tag."""
    opening = "" if "opened" in sample.tags else "<think>"
    return f"{opening}</think><answer>{sample.answer}</answer>"


def metrics(records: Sequence[Record], grader: str) -> Mapping[str, Metric]:
    """Accuracy over all records (`total`); for those of CV-Bench also that of each kind, their mean, and its own score."""
    metrics = {"total": accuracy(records, grader)}
    bench = [r for r in records if "kind" in r.tags]
    if bench:
        kinds = accuracy_by_tag(bench, grader, "kind")
        metrics |= {name: kinds[name] for name in KINDS if name in kinds}
        metrics["task_macro"] = macro_accuracy(bench, grader, "kind")
        metrics["cvbench"] = cvbench(bench, grader)
    metrics |= accuracy_by_tag(records, grader, "question type")  # of SAT's own test
    return metrics


def _ask_for_words(question: str, choices: Sequence[str]) -> str:
    """The released training question."""
    *first, last = choices
    options = f"{', '.join(first)} or {last}" if first else last
    return f"Answer in natural language. {question} Choose between the following options: {options}"


task = Task(
    name="sat",
    doc="SAT (train) -> CV-Bench (test): counting, relation, depth and distance, with options.",
    options=Options,
    splits=("train", "test"),
    load=Dataset(
        read=LAYOUTS,
        sample=sample,
        sources={"train": "array/SAT", "test": "nyu-visionx/CV-Bench"},
        synthetic=SYNTHETIC,
    ),
    rewards={"choice": 1.0, "format": 1.0},
    graders={"strict": ("choice",), "official": ("choice.cvbench",)},
    metrics=metrics,
    gold=gold,
)
