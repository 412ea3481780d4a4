"""Referring expressions with their boxes: the published layouts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import PurePosixPath

from vlrft.data import (
    Defect,
    Layout,
    Layouts,
    Row,
    Source,
    number_rows,
    open_source,
    read_row,
)
from vlrft.schema import DataError

from .expressions import Pictures, read_expressions
from .options import Options

HUB_IDS: Mapping[str, str] = {
    "refcoco": "lmms-lab/RefCOCO",
    "refcoco+": "lmms-lab/RefCOCOplus",
    "refcocog": "lmms-lab/RefCOCOg",
}
ALIASES: Mapping[str, tuple[str, ...]] = {
    "refcoco": ("refcoco",),
    "refcoco+": ("refcocop", "refcoco+", "refcocoplus"),
    "refcocog": ("refcocog",),
}
PICKLES = (".p", ".pkl", ".pickle")


def _table(source: Source, dataset: str, split: str) -> str | None:
    """The name of a set's table of a split in VLM-R1's and Qwen-VL's archives, such as `refcocop_val`."""
    stems = {PurePosixPath(name).stem for name in source.names()}
    return next((t for a in ALIASES[dataset] if (t := f"{a}_{split}") in stems), None)


def _is_copy(source: Source, split: str) -> bool:
    """Whether the source is one of lmms-lab's sets: on the hub, copied (`data/val-…`), or saved by datasets (`val/data-…`)."""
    paths = [PurePosixPath(name) for name in source.names()]
    tables = [path for path in paths if path.suffix in (".parquet", ".arrow")]
    names = ((*path.parts[:-1], path.stem.partition("-")[0]) for path in tables)
    return not paths or any(split in words for words in names)


def _datasets(options: Options) -> tuple[str, ...]:
    return tuple(HUB_IDS) if options.dataset == "all" else (options.dataset,)


def _read_files(source: Source, split: str, options: Options) -> Iterator[Row | Defect]:
    tables = {dataset: _table(source, dataset, split) for dataset in _datasets(options)}
    for dataset, table in tables.items():
        if table is None:
            raise DataError(
                f"{source.label}: no table of {dataset}, {split} split; expected "
                f"{ALIASES[dataset][0]}_{split}.jsonl or .json; options.dataset chooses one set"
            )
    for dataset, table in tables.items():
        yield from _read_rows(source, table or split, dataset, split, options)


def _read_copy(source: Source, split: str, options: Options) -> Iterator[Row | Defect]:
    if options.dataset == "all":
        raise DataError(f"{source.label}: a copy of one set; set options.dataset")
    yield from _read_rows(source, split, options.dataset, split, options)


def _refuse_pickles(source: Source, split: str, options: Options) -> Iterator[Row | Defect]:
    name = next(n for n in source.names() if n.lower().endswith(PICKLES))
    raise DataError(
        f"{source.label}: {name} is a pickle, which may run any code when it is opened; give VLM-R1's "
        "rec_jsons_processed.zip (hub: omlab/VLM-R1) or a copy of lmms-lab/RefCOCO"
    )


read = Layouts(
    (
        Layout(
            name="refcoco_SPLIT.jsonl or .json, refcocop_…, refcocog_… (VLM-R1's rec_jsons_processed, Qwen-VL)",
            found=lambda source, split, options: any(
                _table(source, dataset, split) for dataset in _datasets(options)
            ),
            read=_read_files,
        ),
        Layout(
            name="SPLIT-*.parquet (lmms-lab/RefCOCO)",
            found=lambda source, split, options: _is_copy(source, split),
            read=_read_copy,
            splits=("val", "test", "testA", "testB"),
        ),
        Layout(
            name="refs(unc).p is refused: a pickle",
            found=lambda source, split, options: any(
                n.lower().endswith(PICKLES) for n in source.names()
            ),
            read=_refuse_pickles,
        ),
    )
)
"""The rows of a split: one for each expression; a row of lmms-lab's sets holds several of one object."""


def _read_rows(
    source: Source, table: str, dataset: str, split: str, options: Options
) -> Iterator[Row | Defect]:
    pictures = Pictures(open_source(options.images) if options.images else source)
    for number, cells in number_rows(source.rows(table)):
        name = f"{dataset}/{split}/{number}"
        item = read_row(name, partial(read_expressions, cells, name, pictures))
        if isinstance(item, Defect):
            yield item
            continue
        for k, (expression, problem) in enumerate(item.expressions):
            yield Row(
                id=name if len(item.expressions) == 1 else f"{name}/{k}",
                question=expression,
                answer=list(item.box),
                pictures=(item.picture,),
                tags={"answer": "box", "dataset": dataset},
                info={
                    "split": split,
                    "size": list(item.size),
                    "box": list(item.box),
                    "problem": problem,
                },
            )
