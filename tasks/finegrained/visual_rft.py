"""Visual-RFT's lists of test images (`classification/val_data/*.pth`): a list of `{path: {"label": tensor, …}}` that torch saved.

Such a file is a zip with a pickle and the content of its tensors. Loading a pickle may execute code, so it is not loaded:
its instructions are read as data, nothing that they name is imported or called, and any instruction beyond those of such a
list is refused.
"""

from __future__ import annotations

import io
import pickletools
import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, BinaryIO, cast

from vlrft.data import Defect, PictureFinder, Source, read_file
from vlrft.data.tables import read_limited
from vlrft.schema import DataError
from vlrft.schema.short_message import short_message

from .class_list import VISUAL_RFT, read_classes
from .official import label_picture
from .options import Labelled, Options

MAX_PART = 64 << 20  # bytes of a file in the zip; the largest published one has 2 MB
TENSOR = "torch._utils _rebuild_tensor_v2"
LONGS = "torch LongStorage"
MARK = object()


@dataclass(frozen=True)
class Global:
    """The name of a function or a class; it is never imported."""

    name: str


@dataclass(frozen=True)
class Call:
    """A function that the pickle would call; it is never called."""

    function: Any
    arguments: Any


@dataclass(frozen=True)
class Stored:
    """A storage of the zip that the pickle refers to."""

    place: Any


def has_predictions(source: Source, split: str, options: Options) -> bool:
    return bool(_file(source, options))


def read_predictions(source: Source, split: str, options: Options) -> Iterator[Labelled | Defect]:
    classes = read_classes(source, options.dataset)
    finder = PictureFinder(source, split)
    name = _file(source, options)
    try:
        items = list(read_labels(read_file(source, name)))
    except DataError:
        raise
    except Exception as e:  # BadZipFile, ValueError, KeyError, IndexError, struct.error, …
        raise DataError(
            f"{source.label}: {name} is not a list of Visual-RFT ({short_message(e)}), and other pickles are not read; CoOp's "
            "split_zhou_*.json has the same images"
        ) from e
    for path, label in items:
        class_name = classes.names[label] if 0 <= label < len(classes.names) else None
        yield label_picture(path, class_name, str(label), finder)


def _file(source: Source, options: Options) -> str:
    wanted = PurePosixPath(VISUAL_RFT[options.dataset]).with_suffix(".pth").name
    return next((n for n in source.names() if PurePosixPath(n).name == wanted), "")


def read_labels(content: bytes) -> Iterator[tuple[str, int]]:
    """The path and the label of each image. Raises whatever reading a file of another form raises."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:

        def read(name: str) -> bytes:
            with archive.open(name) as file:
                return read_limited(cast(BinaryIO, file), name, MAX_PART)

        (pickle,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
        contents: dict[str, bytes] = {}
        for item in describe(read(pickle)):
            ((path, fields),) = item.items()
            storage, offset, shape, *_ = _arguments(fields["label"])
            _, kind, key, *_ = storage.place
            if kind != Global(LONGS) or shape != ():
                raise ValueError(f"the label of {path} is not a whole number")
            if key not in contents:
                contents[key] = read(f"{pickle.removesuffix('data.pkl')}data/{key}")
            yield str(path), struct.unpack_from("<q", contents[key], 8 * offset)[0]


def _arguments(tensor: Any) -> Any:
    if not isinstance(tensor, Call) or tensor.function != Global(TENSOR):
        raise ValueError("a label is not a tensor")
    return tensor.arguments


def describe(pickle: bytes) -> Any:
    """The lists, dicts, texts and numbers that a pickle describes; a call or a reference as a description of it. Raises
    ValueError for an instruction that such a description does not need."""
    stack: list[Any] = []
    memo: dict[Any, Any] = {}

    def pop_to_mark() -> list[Any]:
        place = next(k for k in reversed(range(len(stack))) if stack[k] is MARK)
        items = stack[place + 1 :]
        del stack[place:]
        return items

    for instruction, value, _ in pickletools.genops(pickle):
        match instruction.name:
            case "PROTO":
                pass
            case "EMPTY_LIST" | "EMPTY_DICT" | "EMPTY_TUPLE":
                stack.append(
                    {"EMPTY_LIST": [], "EMPTY_DICT": {}, "EMPTY_TUPLE": ()}[instruction.name]
                )
            case "MARK":
                stack.append(MARK)
            case "BINUNICODE" | "BININT" | "BININT1" | "BININT2":
                stack.append(value)
            case "NEWFALSE" | "NEWTRUE":
                stack.append(instruction.name == "NEWTRUE")
            case "BINPUT" | "LONG_BINPUT":
                memo[value] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(memo[value])
            case "TUPLE":
                stack.append(tuple(pop_to_mark()))
            case "TUPLE1":
                stack.append((stack.pop(),))
            case "TUPLE2":
                stack[-2:] = [tuple(stack[-2:])]
            case "APPENDS":
                items = pop_to_mark()
                stack[-1].extend(items)
            case "APPEND":
                item = stack.pop()
                stack[-1].append(item)
            case "SETITEMS":
                pairs = pop_to_mark()
                stack[-1].update(zip(pairs[::2], pairs[1::2], strict=True))
            case "SETITEM":
                key, item = stack[-2:]
                del stack[-2:]
                stack[-1][key] = item
            case "GLOBAL":
                stack.append(Global(str(value)))
            case "REDUCE":
                stack[-2:] = [Call(*stack[-2:])]
            case "BINPERSID":
                stack.append(Stored(stack.pop()))
            case "STOP":
                return stack.pop()
            case name:
                raise ValueError(f"an unexpected instruction, {name}")
    raise ValueError("the pickle has no end")
