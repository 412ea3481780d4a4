"""A run's last checkpoint asked by plain transformers: its answers to the pictures that the run has kept of
its last evaluation, beside those that the run itself has written down.

    python -m benchmarks.ranks.answers RUN

Nothing of vlrft is imported. Prints a row a picture kind: pictures, answers that are the same to the letter, right ones.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from transformers import AutoImageProcessor, AutoModelForImageTextToText, AutoTokenizer

BATCH = 20
LONGEST = 32  # tokens of an answer
PLACE = "<|image_pad|>"


def last_evaluation(run: Path) -> list[dict[str, Any]]:
    """Its records whose pictures the run has kept."""
    rows = [json.loads(line) for line in (run / "evals.jsonl").read_text().splitlines()]
    return [row for row in rows if row["step"] == rows[-1]["step"] and row["images"]]


def answers(run: Path, rows: list[dict[str, Any]]) -> list[str]:
    """Greedy ones of the checkpoint, by transformers alone. AutoProcessor does the same where torchvision is installed."""
    folder = run / "checkpoints" / "last"
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    images = AutoImageProcessor.from_pretrained(folder)
    model = AutoModelForImageTextToText.from_pretrained(folder).eval()
    found: list[str] = []
    for start in range(0, len(rows), BATCH):
        part = rows[start : start + BATCH]
        shown = images(
            images=[Image.open(run / row["images"][0]).convert("RGB") for row in part],
            return_tensors="pt",
        )
        texts = [
            asked(row["prompt"], int(grid.prod()) // images.merge_size**2, tokenizer)
            for row, grid in zip(part, shown["image_grid_thw"], strict=True)
        ]
        inputs = tokenizer(texts, padding=True, return_tensors="pt")
        kinds = (inputs["input_ids"] == model.config.image_token_id).int()
        with torch.no_grad():
            out = model.generate(
                **inputs, **shown, mm_token_type_ids=kinds, max_new_tokens=LONGEST, do_sample=False
            )
        said = out[:, inputs["input_ids"].shape[1] :]
        found += tokenizer.batch_decode(said, skip_special_tokens=True)
    return found


def asked(prompt: str, features: int, tokenizer: Any) -> str:
    """The conversation's text, with a place for each of the image's features."""
    text = {"type": "text", "text": prompt.removeprefix("<image>")}
    messages = [{"role": "user", "content": [{"type": "image"}, text]}]
    written: str = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=False
    )
    return written.replace(PLACE, PLACE * features)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    args = parser.parse_args()
    rows = last_evaluation(args.run)
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for row, said in zip(rows, answers(args.run, rows), strict=True):
        right = said.strip() == f"<answer>{row['answer']}</answer>"
        count = counts[row["tags"]["kind"]]
        marks = (True, said == row["output"], right)
        count[:] = [have + int(new) for have, new in zip(count, marks, strict=True)]
    print("| pictures of | asked | the run's own answer | right |\n| --- | ---: | ---: | ---: |")
    for kind, found in counts.items():
        print(f"| {kind} | {found[0]} | {found[1]} | {found[2]} |")


if __name__ == "__main__":
    main()
