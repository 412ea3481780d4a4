"""Fine-grained classification from few examples: flowers, pets, aircraft, cars (Visual-RFT's sets).

The question is open: the prompt lists no classes. `layouts.py` has the forms that are read: tables, CoOp's lists, the
authors' folders, and a folder of images per class. Class names are spelt as Visual-RFT's lists have them (`classes/`:
`american_bulldog`, `2012 Audi TT RS Coupe`), however others spell them. A label that is a number is an index in the list of
classes next to the table (`pets37_classes.txt`, `classes.txt` or Visual-RFT's own: one name a line, label 0 first); with
such a list, other names are refused. Training uses `k` images of each class, drawn with `seed`; the test split is used
whole. The released evaluation prompt has a literal `<image>` before the question in addition to the image.
"""

from __future__ import annotations

from vlrft.data import Dataset, Row, read_prompt, user_sample
from vlrft.schema import IMAGE, DataError, Sample, Task

from .layouts import LAYOUTS
from .options import HUB_IDS, KINDS, Options
from .synthetic import SYNTHETIC


def sample(row: Row, options: Options) -> Sample:
    dataset = row.tags["dataset"]
    if dataset != options.dataset:
        raise DataError(f"sample {row.id} is from {dataset}; set options.dataset={dataset}")
    thing, attribute = KINDS[dataset]
    released = options.prompt == "released"
    text = read_prompt(__file__, options.prompt).format(thing=thing, what=attribute)
    if released and row.info["split"] == "test":
        text = f"<image>\n{text}"
    elif released and row.info["problem"]:
        text = row.info["problem"]  # as the dataset has it
    return user_sample(row, (IMAGE, text))


task = Task(
    name="finegrained",
    doc="Few-shot fine-grained classification: flowers102, pets37, fgvc_aircraft100, cars196.",
    options=Options,
    splits=("train", "test"),
    load=Dataset(
        read=LAYOUTS,
        sample=sample,
        sources=lambda options: {"train": HUB_IDS[options.dataset]},
        synthetic=SYNTHETIC,
    ),
    rewards={"classname": 1.0, "format": 1.0},
    graders={"strict": ("classname",), "official": ("classname.visual_rft_eval",)},
    gold=lambda s: f"<think></think><answer>{s.answer}</answer>",
    detail=lambda record: "class",
)
