"""One self-contained HTML page of an evaluation: metrics, classes with their confusions, boxes, and answers to look at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from vlrft.data.atomic import write_atomically
from vlrft.data.jsonl import ENCODING, ERRORS, to_json
from vlrft.evaluation.details.box_table import FOUND
from vlrft.evaluation.details.class_table import OTHER, UNREADABLE
from vlrft.grading.metrics import reaches_threshold
from vlrft.reporting.html.cards import (
    Card,
    box_overlays,
    image_uri,
    shorten,
    shown_prompt,
    unreadable_note,
)
from vlrft.reporting.html.charts import Chart, draw
from vlrft.reporting.html.contact_sheet import make_strips, question_text
from vlrft.reporting.html.template import load_template
from vlrft.schema import Record, Sample
from vlrft.scoring.graders import STRICT
from vlrft.vision.boxes import THOUSAND, is_boxes

CARDS = 120  # answers on the page, half of them wrong, so that it stays small enough to send
MATRIX = 30  # classes of the confusion matrix; of more, those with the most wrong answers
STATES = {"": "all", "right": "right", "wrong": "wrong", "unreadable": "unreadable", "cut": "cut"}


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """A confusion matrix as a table of the page."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[tuple[int, int], ...]], ...]
    """Class, and for each column the number of answers and its share of the row in percent."""
    left_out: int  # classes that are not among the rows


def write_evaluation_page(
    path: Path, results: Mapping[str, Any], records: Sequence[Record], samples: Sequence[Sample]
) -> None:
    """Writes the page. `results`: as in the JSON of the evaluation; `samples`: those whose questions and pictures are shown,
    also fewer than were answered, or none."""
    chosen = choose_records(records, results)
    by_id = {sample.id: sample for sample in samples}
    classes: Mapping[str, Any] = results.get("classes", {})
    html = load_template("evaluation.html").render(
        results=results,
        about={k: results[k] for k in ("split", "model", "predictions") if k in results},
        graders={k: v["metrics"] for k, v in results.items() if _is_grader(v)},
        number=_number,
        interval=_interval,
        classes=sorted(classes.get("classes", {}).items(), key=lambda c: (c[1]["score"], c[0])),
        macro=classes.get("macro"),
        matrix=make_matrix(classes.get("confusion", {})),
        curve=draw_curve(results.get("boxes", {})),
        sizes=results.get("boxes", {}).get("sizes", {}),
        cards=[make_card(r, by_id.get(r.id), results) for r in chosen],
        states=_states(records, results),
        total=len(records),
    )
    write_atomically(path, html.encode(ENCODING, ERRORS))


def choose_records(records: Sequence[Record], results: Mapping[str, Any]) -> list[Record]:
    """At most CARDS records, in their order: wrong and right ones evenly spaced, half of each where there are enough."""
    right = [k for k, r in enumerate(records) if is_right(r, results)]
    wrong = sorted(set(range(len(records))) - set(right))
    half = max(CARDS // 2, CARDS - len(right))
    kept = _space_out(wrong, half)
    kept += _space_out(right, CARDS - len(kept))
    return [records[k] for k in sorted(kept)]


def is_right(record: Record, results: Mapping[str, Any]) -> bool:
    """Whether the strict grade reaches the threshold: of a box the usual IoU, of others that of the headline."""
    headline = float(results.get(STRICT, {}).get("threshold", 1.0))
    return reaches_threshold(
        record.grades[STRICT], min(FOUND, headline) if is_boxes(record.answer) else headline
    )


def make_card(record: Record, sample: Sample | None, results: Mapping[str, Any]) -> Card:
    """The card of an answer, without question and picture where there is no sample."""
    frame = record.info.get("frame", (THOUSAND, THOUSAND))
    labels = [(name, f"{grade:.2f}") for name, grade in record.grades.items()]
    images = () if sample is None else sample.images
    right = is_right(record, results)
    return Card(
        images=tuple(map(image_uri, images)),
        boxes=box_overlays(record.answer, record.output, tuple(frame)) if len(images) == 1 else (),
        title=" · ".join([record.id, *(f"{k}: {v}" for k, v in _short_tags(record))]),
        strips=() if sample is None else make_strips(sample, record.output),
        prompt="" if sample is None else shown_prompt(question_text(sample)),
        completion=shorten(record.output),
        answer=shorten("" if record.answer is None else str(to_json(record.answer))),
        scores=tuple(labels),
        good=right,
        note=unreadable_note(record.unreadable),
        states=_record_states(record, right=right),
    )


def make_matrix(confusion: Mapping[str, Mapping[str, int]]) -> Matrix | None:
    """The confusion matrix of at most MATRIX classes; None without classes."""
    if not confusion:
        return None
    wrong = {true: sum(row.values()) - row.get(true, 0) for true, row in confusion.items()}
    worst = sorted(confusion, key=lambda name: -wrong[name])[:MATRIX]
    names = [name for name in confusion if name in set(worst)]
    rest = [name for name in (OTHER, UNREADABLE) if any(name in r for r in confusion.values())]
    others = "(other classes)" if len(names) < len(confusion) else None
    rows: list[tuple[str, tuple[tuple[int, int], ...]]] = []
    for true in names:
        row = confusion[true]
        counts = [row.get(name, 0) for name in (*names, *rest)]
        if others is not None:
            counts.append(sum(row.values()) - sum(counts))
        total = sum(row.values())
        rows.append((true, tuple((n, round(100 * n / total)) for n in counts)))
    columns = (*names, *rest, *([others] if others is not None else []))
    return Matrix(columns=columns, rows=tuple(rows), left_out=len(confusion) - len(names))


def draw_curve(boxes: Mapping[str, Any]) -> Markup:
    """The share of answers by IoU, as a chart; empty without boxes."""
    marks = [
        (100 * p["iou"], 100 * p["share"], *(100 * v for v in p["ci"]))
        for p in boxes.get("curve", ())
    ]
    return draw(Chart(title="Percent of answers by IoU in percent", marks=marks))


def _states(records: Sequence[Record], results: Mapping[str, Any]) -> list[tuple[str, str, int]]:
    """The filters of the page: class, words and number of answers, without those that no answer has."""
    counts = dict.fromkeys(STATES, 0)
    for record in records:
        for state in ("", *_record_states(record, right=is_right(record, results))):
            counts[state] += 1
    return [(state, words, counts[state]) for state, words in STATES.items() if counts[state]]


def _record_states(record: Record, *, right: bool) -> tuple[str, ...]:
    flags = {
        "right": right,
        "wrong": not right,
        "unreadable": bool(record.unreadable),
        "cut": record.truncated,
    }
    return tuple(name for name, applies in flags.items() if applies)


def _short_tags(record: Record) -> Iterable[tuple[str, str]]:
    """The tags that are short enough for a card, without the kind of the answer."""
    return (
        (k, v)
        for k, v in record.tags.items()
        if k != "answer" and 0 < len(v) <= 40 and "\n" not in v
    )


def _space_out(indices: Sequence[int], limit: int) -> list[int]:
    count = min(limit, len(indices))
    return [indices[i * len(indices) // count] for i in range(count)]


def _is_grader(value: object) -> bool:
    return isinstance(value, Mapping) and "metrics" in value


def _number(metric: Mapping[str, Any]) -> str:
    share = metric.get("share", True)
    return f"{100 * metric['score']:.2f}" if share else f"{metric['score']:.3f}"


def _interval(metric: Mapping[str, Any]) -> str:
    share = metric.get("share", True)
    low, high = ((100 * v if share else v) for v in metric["ci"])
    return f"{low:.2f} to {high:.2f}" if share else f"{low:.3f} to {high:.3f}"
