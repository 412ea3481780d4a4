"""Fine-grained classification from few examples: flowers, pets, aircraft, cars (Visual-RFT's sets).

The question is open: the prompt lists no classes. Raw forms, tried in this order: a label file (`train.jsonl`,
`pets37_test.jsonl`: image, label) next to the images, the hub's ViRFT sets (image, problem, solution), or one folder of
images per class (`train/persian/1.jpg`). A label that is a number is an index in the list of classes next to it
(`pets37_classes.txt` or `classes.txt`: one name a line, label 0 first); with a list, other names are refused. Training
uses `k` images of each class, drawn with `seed`; the test split is used whole. The released evaluation prompt has a
literal `<image>` before the question in addition to the image.
"""

from __future__ import annotations

from vlrft.data import Dataset, Row, read_prompt, user_sample
from vlrft.schema import IMAGE, DataError, Sample, Task

from .labels import HUB_IDS, Options, read

KINDS = {
    "flowers102": ("a plant", "species of the plant"),
    "pets37": ("a pet", "species of the pet"),
    "fgvc_aircraft100": ("an aircraft", "model of the aircraft"),
    "cars196": ("a car", "model of the car"),
}


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
        read=read, sample=sample, sources=lambda options: {"train": HUB_IDS[options.dataset]}
    ),
    rewards={"classname": 1.0, "format": 1.0},
    graders={"strict": ("classname",), "official": ("classname.visual_rft_eval",)},
    gold=lambda s: f"<think></think><answer>{s.answer}</answer>",
    detail=lambda record: "class",
)
