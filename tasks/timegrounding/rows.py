"""Sentences with their segments of time: the published layouts."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from vlrft.data import (
    ClipFinder,
    Defect,
    Layout,
    Layouts,
    Row,
    Source,
    open_source,
    parse_json,
    read_file,
    read_row,
)
from vlrft.schema import DataError

from .options import Options

STEMS = ("{}", "charades_{}", "charades_sta_{}")  # of a split's json, without case


def _find(source: Source, split: str, suffix: str, stems: Sequence[str]) -> str | None:
    """The first file with one of the stems, in the order of the names."""
    wanted = {stem.format(split) for stem in stems}
    for name in source.names():
        path = PurePosixPath(name)
        if path.suffix.lower() == suffix and path.stem.lower() in wanted:
            return name
    return None


def _find_text(source: Source, split: str) -> str | None:
    return _find(source, split, ".txt", ("charades_sta_{}",))


def _find_json(source: Source, split: str) -> str | None:
    return _find(source, split, ".json", STEMS)


def _read_text(source: Source, split: str, options: Options) -> Iterator[Row | Defect]:
    """`3MSZA 24.3 30.4##person turn a light on.`, a sentence a line."""
    name = _find_text(source, split)
    assert name is not None  # the layout was found
    lengths = _read_lengths(source, split)
    clips, seen = _clips(source, split, options), Counter[str]()
    text = _decode(read_file(source, name), f"{source.label}: {name}")
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        item = read_row(where, partial(_split_line, line))
        if isinstance(item, Defect):
            yield item
            continue
        video, segment, sentence = item
        row_id = f"{video}/{seen[video]}"
        seen[video] += 1
        yield _make_row(row_id, video, segment, sentence, lengths.get(video), clips)


def _split_line(line: str) -> tuple[str, list[str], str]:
    place, mark, sentence = line.partition("##")
    words = place.split()
    if not mark or len(words) != 3:
        raise DataError("expected VIDEO START END##SENTENCE")
    return words[0], words[1:], sentence


def _read_json(source: Source, split: str, options: Options) -> Iterator[Row | Defect]:
    """`{"3MSZA": {"duration": 30.96, "timestamps": [[24.3, 30.4]], "sentences": ["person turn a light on."]}}`"""
    name = _find_json(source, split)
    assert name is not None  # the layout was found
    where = f"{source.label}: {name}"
    content = parse_json(_decode(read_file(source, name), where), where)
    if not isinstance(content, Mapping):
        raise DataError(f"{where}: expected an object with a key for each video")
    clips = _clips(source, split, options)
    for video, cells in content.items():
        item = read_row(video, partial(_sentences, cells))
        if isinstance(item, Defect):
            yield item
            continue
        duration, pairs = item
        for k, (segment, sentence) in enumerate(pairs):
            yield _make_row(f"{video}/{k}", video, segment, sentence, duration, clips)


def _sentences(cells: Any) -> tuple[Any, list[tuple[Any, Any]]]:
    segments, sentences = cells["timestamps"], cells["sentences"]
    if len(segments) != len(sentences):
        raise DataError(f"{len(segments)} timestamps of {len(sentences)} sentences")
    return cells.get("duration"), list(zip(segments, sentences, strict=True))


def _clips(source: Source, split: str, options: Options) -> ClipFinder:
    return ClipFinder(open_source(options.videos) if options.videos else source, split)


def _make_row(
    row_id: str, video: str, segment: Any, sentence: Any, duration: Any, clips: ClipFinder
) -> Row | Defect:
    return read_row(
        row_id, partial(_row_or_defect, row_id, video, segment, sentence, duration, clips)
    )


def _row_or_defect(
    row_id: str, video: str, segment: Any, sentence: Any, duration: Any, clips: ClipFinder
) -> Row | Defect:
    start, end = (float(second) for second in segment)
    if not start < end:
        # Of some lines of Charades-STA; those who train on it leave them out.
        return Defect(
            id=row_id, reason="end not after start", detail=f"{start} {end}", intended=True
        )
    try:
        clip = clips.find(video)
    except DataError as e:
        return Defect.of(row_id, f"{e}; options.videos is their folder")
    return Row(
        id=row_id,
        question=" ".join(str(sentence).split()),
        answer=[start, end],
        videos=(clip,),
        tags={"answer": "segment"},
        info={"split": clips.split, **({} if duration is None else {"duration": float(duration)})},
    )


def _read_lengths(source: Source, split: str) -> dict[str, float]:
    """Video -> its length in seconds by Charades' own table, where that is there: columns `id` and `length`."""
    name = _find(source, split, ".csv", ("charades_v1_{}",))
    if name is None:
        return {}
    text = _decode(read_file(source, name), f"{source.label}: {name}")
    try:
        return {row["id"]: float(row["length"]) for row in csv.DictReader(io.StringIO(text))}
    except (KeyError, ValueError, TypeError, csv.Error) as e:
        raise DataError(f"{source.label}: {name} has no columns id and length ({e})") from None


def _decode(content: bytes, where: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise DataError(f"{where}: not UTF-8 ({e.reason} at byte {e.start})") from None


LAYOUTS = Layouts(
    (
        Layout(
            name="charades_sta_SPLIT.txt (Charades-STA of github.com/jiyanggao/TALL; with Charades_v1_SPLIT.csv also the "
            "lengths) and VIDEO.mp4 in any folder, or in options.videos",
            found=lambda source, split, options: _find_text(source, split) is not None,
            read=_read_text,
        ),
        Layout(
            name="SPLIT.json, charades_SPLIT.json or charades_sta_SPLIT.json with duration, timestamps and sentences of each "
            "video (Time-R1's copies of Charades-STA and ActivityNet Captions), videos as above",
            found=lambda source, split, options: _find_json(source, split) is not None,
            read=_read_json,
        ),
    )
)
