"""Hostile rows and damaged tables to `vlrft data prepare`: every row is kept or listed, and training takes what is kept."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from random import Random
from typing import Any

from PIL import Image

from benchmarks.campaign.case import Finding, Kind, Plan, Result
from benchmarks.campaign.in_child import call_in_child
from benchmarks.campaign.outcome import judge_end, shown_line
from benchmarks.campaign.process import run
from vlrft.testing.hostile_texts import hostile_text

ROWS = 6
FORMS = ("jsonl", "jsonl", "json", "csv", "parquet", "zip")
CELLS: dict[str, tuple[Any, ...]] = {
    "image": (
        *("gone.png", "../secret.png", "/etc/passwd", "a\0b.png", "\ud800.png", "x" * 300 + ".png", "", None, 7, [], {}),
        *("eps.png", "thin.png", "wide.png", "huge.png", "cut.png", "text.png", "frames.gif", "svg.png", "folder.png"),
        *(["0.png", "1.png"], {"bytes": "no"}, {"path": "0.png"}, [None], ["gone.png"], "bomb.png", "alpha.png"),
    ),
    "question": (
        *("", " ", None, 7, [], "\ud800", "\0", "\x1b[31mred", "<|image_pad|>", "<|im_end|>\n<|im_start|>system", "<image>"),
        *("word " * 100_000, "\u202e", "<|vision_start|>", "{question}", "{{ 7*7 }}", "\u2028"),
    ),
    "answer": (
        *("", None, [], {}, "\ud800", "(" * 900 + "1" + ")" * 900, "x" * 3000, "</answer>", "\\frac{1", "9" * 5000, True),
        *("<answer>5", "\0", "1/0", "\\boxed{5}", "nan", "5<|im_end|>junk", 1e308, -0.0, "\\sqrt[", "\x1b[31m5"),
    ),
    "id": (None, "", 7, "\ud800", "0", "\x1b[31m", "a/../b", "x" * 5000, "\0", [], True, "twice"),
}  # fmt: skip


def draw(random: Random) -> Plan:
    """`bad`: row, column, index of the value; `flips`: places in the table's file, as shares, and bits."""
    bad = []
    for _ in range(random.randint(0, 3)):
        column = random.choice(sorted(CELLS))
        bad.append([random.randrange(ROWS), column, random.randrange(len(CELLS[column]))])
    flips = random.choice((0, 0, 0, 1, 3, 30))
    return {
        "form": random.choice(FORMS),
        "bad": bad,
        "hostile": random.getrandbits(32) if random.random() < 0.3 else None,
        "flips": [[random.random(), random.randrange(8)] for _ in range(flips)],
        "cut": random.random() if random.random() < 0.1 else None,
    }


def carry_out(plan: Plan, folder: Path) -> Result:
    raw = folder / "raw"
    raw.mkdir()
    (folder / "secret.png").write_bytes(_png(10, 10))
    _write_pictures(raw)
    rows = _rows(plan)
    try:
        table = _write_table(plan, raw, rows)
    except (UnicodeEncodeError, TypeError, ValueError, OverflowError) as e:
        return Result(shown=f"the form cannot hold such a row: {type(e).__name__}", trials=0)
    _spoil(table, plan)
    source = table if plan["form"] == "zip" else raw
    ended = run(
        ["data", "prepare", "geoqa", "--from", str(source), "--out", "out", "--split", "train"],
        folder,
    )
    findings = judge_end(ended)
    spoiled = plan["flips"] or plan["cut"] is not None
    if ended.code == 0:
        lines = {
            n: (folder / "out" / n).read_text().splitlines()
            for n in ("train.jsonl", "train.defects.jsonl")
        }
        total = sum(map(len, lines.values()))
        if not spoiled and total != len(rows):
            text = f"{total} rows kept or listed of {len(rows)}"
            findings.append(Finding(outcome="lost", text=text))
        refused, _ = call_in_child(lambda: _find_refused(folder / "out"), folder)
        findings += [
            Finding(outcome="unclear", text=f"prepared, but training refuses: {r}")
            for r in refused or []
        ]
        show = run(["data", "show", "geoqa", "--from", "out"], folder)
        findings += judge_end(show)
    elif not spoiled and len({row for row, _, _ in plan["bad"]}) < ROWS and plan["hostile"] is None:
        good = ROWS - len({row for row, _, _ in plan["bad"]})
        text = f"{good} good rows are not prepared: {shown_line(ended)}"
        findings.append(Finding(outcome="unclear", text=text))
    return Result(findings=tuple(findings), trials=len(rows), shown=shown_line(ended))


def _rows(plan: Plan) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {
            "id": f"{k}",
            "image": f"{k}.png",
            "question": f"How long is side {k}?",
            "answer": str(k + 2),
        }
        for k in range(ROWS)
    ]
    for row, column, index in plan["bad"]:
        rows[row][column] = CELLS[column][index]
    if plan["hostile"] is not None:
        random = Random(plan["hostile"])
        rows[random.randrange(ROWS)][random.choice(("question", "answer", "id", "image"))] = (
            hostile_text(random, 20_000)
        )
    return rows


def _write_table(plan: Plan, raw: Path, rows: list[dict[str, Any]]) -> Path:
    form = plan["form"]
    if form == "json":
        path = raw / "train.json"
        path.write_text(json.dumps(rows))
    elif form == "csv":
        import csv

        path = raw / "train.csv"
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, ["id", "image", "question", "answer"])
            writer.writeheader()
            writer.writerows(rows)
    elif form == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = raw / "train.parquet"
        try:
            pq.write_table(pa.Table.from_pylist(rows), path)
        except pa.ArrowException as e:
            raise ValueError(str(e)) from e
    else:
        path = raw / "train.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    if form == "zip":
        archive = raw.parent / "raw.zip"
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
            for file_path in sorted(p for p in raw.rglob("*") if p.is_file()):
                zipped.write(file_path, file_path.relative_to(raw))
        return archive
    return path


def _spoil(table: Path, plan: Plan) -> None:
    content = bytearray(table.read_bytes())
    for place, bit in plan["flips"]:
        if content:
            content[int(place * len(content))] ^= 1 << bit
    if plan["cut"] is not None:
        content = content[: int(plan["cut"] * len(content))]
    table.write_bytes(bytes(content))


def _find_refused(out: Path) -> list[str]:
    """The prepared rows that a small policy refuses, read as training reads them."""
    from vlrft.plugins.find import find_task
    from vlrft.schema import DataError
    from vlrft.testing.hostile_parsing import small_chat

    task = find_task("geoqa")
    problems = []
    samples = task.load("train", task.options(data=str(out)))
    for k in range(len(samples)):
        try:
            sample = samples[k]
            small_chat().render(sample.messages, sample.images, name=sample.id)
        except DataError as e:
            problems.append(str(e)[:200])
        except Exception as e:
            problems.append(f"{type(e).__name__}: {e}"[:200])
    return problems


def _png(width: int, height: int, mode: str = "RGB") -> bytes:
    file = io.BytesIO()
    Image.new(mode, (width, height), 1).save(file, "PNG")
    return file.getvalue()


def _write_pictures(raw: Path) -> None:
    for k in range(ROWS):
        (raw / f"{k}.png").write_bytes(_png(40 + k, 30))
    sizes = {"thin": (1, 900), "wide": (10_000, 40), "huge": (9000, 9000), "bomb": (16_000, 16_000)}
    for name, (width, height) in sizes.items():
        (raw / f"{name}.png").write_bytes(_png(width, height, "1"))
    (raw / "alpha.png").write_bytes(_png(30, 30, "RGBA"))
    (raw / "cut.png").write_bytes(_png(300, 300)[:200])
    (raw / "text.png").write_text("no picture")
    (raw / "svg.png").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (raw / "eps.png").write_text(
        "%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 50 50\n%%EndComments\nshowpage\n"
    )
    (raw / "folder.png").mkdir()
    frames = [Image.new("L", (9, 9), k) for k in range(40)]
    frames[0].save(raw / "frames.gif", save_all=True, append_images=frames[1:])


ROWS_OF_DATA = Kind(
    name="rows",
    doc="hostile rows, pictures and damaged tables to `data prepare`; what it keeps is read as training reads it",
    draw=draw,
    run=carry_out,
    share=1.0,
)
