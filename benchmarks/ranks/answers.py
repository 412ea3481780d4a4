"""Answers of a run's last checkpoint by transformers alone, compared with the answers that the run recorded in its last
evaluation, for the images that it kept.

    python -m benchmarks.ranks.answers RUN

Nothing of vlrft is imported, so a torchvision that is installed has to fit torch. Prints a row per kind of image: images, equal answers, correct answers.
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
MAX_TOKENS = 32  # of an answer
PLACEHOLDER = "<|image_pad|>"


def last_evaluation(run: Path) -> list[dict[str, Any]]:
    """Records of the last evaluation whose images the run kept."""
    rows = [json.loads(line) for line in (run / "evals.jsonl").read_text().splitlines()]
    return [row for row in rows if row["step"] == rows[-1]["step"] and row["images"]]


def generate_answers(run: Path, rows: list[dict[str, Any]]) -> list[str]:
    """Greedy answers of the checkpoint. AutoProcessor does the same where torchvision is installed."""
    folder = run / "checkpoints" / "last"
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    images = AutoImageProcessor.from_pretrained(folder)
    model = AutoModelForImageTextToText.from_pretrained(folder).eval()
    answers: list[str] = []
    for start in range(0, len(rows), BATCH):
        part = rows[start : start + BATCH]
        pixels = images(
            images=[
                Image.open(run / row["images"][0], formats=["PNG"]).convert("RGB") for row in part
            ],
            return_tensors="pt",
        )
        texts = [
            render(row["prompt"], int(grid.prod()) // images.merge_size**2, tokenizer)
            for row, grid in zip(part, pixels["image_grid_thw"], strict=True)
        ]
        inputs = tokenizer(texts, padding=True, return_tensors="pt")
        kinds = (inputs["input_ids"] == model.config.image_token_id).int()
        with torch.no_grad():
            out = model.generate(
                **inputs,
                **pixels,
                mm_token_type_ids=kinds,
                max_new_tokens=MAX_TOKENS,
                do_sample=False,
            )
        completions = out[:, inputs["input_ids"].shape[1] :]
        answers += tokenizer.batch_decode(completions, skip_special_tokens=True)
    return answers


def render(question: str, features: int, tokenizer: Any) -> str:
    """The prompt's text, with a placeholder for each feature of the image."""
    text = {"type": "text", "text": question.removeprefix("<image>")}
    messages = [{"role": "user", "content": [{"type": "image"}, text]}]
    prompt: str = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=False
    )
    return prompt.replace(PLACEHOLDER, PLACEHOLDER * features)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    args = parser.parse_args()
    rows = last_evaluation(args.run)
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for row, answer in zip(rows, generate_answers(args.run, rows), strict=True):
        correct = answer.strip() == f"<answer>{row['answer']}</answer>"
        count = counts[row["tags"]["kind"]]
        marks = (True, answer == row["output"], correct)
        count[:] = [n + int(new) for n, new in zip(count, marks, strict=True)]
    print("| kind | images | equal to the run's answer | correct |\n| --- | ---: | ---: | ---: |")
    for kind, (images, equal, right) in counts.items():
        print(f"| {kind} | {images} | {equal} | {right} |")


if __name__ == "__main__":
    main()
