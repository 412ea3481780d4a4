"""vlrft check TASK: the gold answer of every sample must earn full marks from the rewards that apply."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec

from vlrft.config import BuildConfig, PolicyConfig
from vlrft.config.load import task_config
from vlrft.data import RowSamples
from vlrft.data.spelled_tokens import SpelledTokens
from vlrft.grading.metrics import reaches_threshold
from vlrft.plugins.find import find_task
from vlrft.rollout.gold import gold_text, gold_turns, grade_gold_answer, walk
from vlrft.rollout.task import LoadedTask, load_task
from vlrft.schema import DataError, Piece, Prompt, Rollout, Sample, TrainingRow
from vlrft.schema.errors import MissingSplit
from vlrft.schema.sample import part_text
from vlrft.scoring.graders import STRICT
from vlrft.scoring.rewards import score
from vlrft.vision.images import upright_rgb

FEW = 4  # gold answers of which no two differ are odd
MAX_ANSWER = 100  # characters
SHOWN = 10  # lines of mistakes of a split


def run(args: argparse.Namespace) -> int:
    config = task_config(args.task, args.overrides)
    failures = checked = 0
    missing: MissingSplit | None = None
    for split in args.split or find_task(config.name).splits:
        try:
            loaded = load_task(config, split)
        except MissingSplit as e:
            missing = e
            if args.split:
                raise
            print(f"{split}: not checked: {e}", file=sys.stderr)
            continue
        except DataError as e:
            if not e.defects:
                raise
            checked += 1
            failures += len(e.defects)
            print(f"{split}: {e}", file=sys.stderr)
            print_some(e.defects)
            continue
        loaded.graders  # noqa: B018 (a task without a strict grader is refused)
        samples = loaded.head(args.limit)
        wrong = list(find_gold_mistakes(loaded, samples))
        failures += len(wrong)
        print(
            f"{split}: {len(samples) - len(wrong)} of {len(samples)} gold answers earn full marks"
        )
        print_some(wrong)
        for warning in find_warnings(loaded, args.limit):
            print(f"warning: {split}: {warning}", file=sys.stderr)
        if note := note_spelled_tokens(loaded, args.limit):
            print(f"  {note}")
        checked += 1
        if checked == 1:
            try:
                show_prompt(loaded)
            except DataError:
                if not wrong:
                    raise
    if missing is not None and not checked:
        raise missing
    return 1 if failures else 0


def find_warnings(loaded: LoadedTask, limit: int | None) -> Iterator[str]:
    """Notes on choices and guesses that were made when rows were read, and on gold answers that are all alike."""
    if not isinstance(loaded.samples, RowSamples):
        return
    yield from loaded.samples.notes
    answers = [str(row.answer) for row in loaded.samples.rows[:limit]]
    if loaded.task.env is None and len(answers) >= FEW and len(set(answers)) == 1:
        yield f"all {len(answers)} gold answers are {answers[0][:MAX_ANSWER]!r}"


def note_spelled_tokens(loaded: LoadedTask, limit: int | None) -> str:
    """A line on the rows that spell a control token; empty where none does, and for a task that reads no rows."""
    spelled = SpelledTokens()
    rows = loaded.samples.rows if isinstance(loaded.samples, RowSamples) else ()
    for row in rows[:limit]:
        spelled.look_at(row)
    return spelled.note


def print_some(lines: Sequence[str]) -> None:
    for line in lines[:SHOWN]:
        print(f"  {line}", file=sys.stderr)


def find_gold_mistakes(loaded: LoadedTask, samples: Sequence[Sample]) -> Iterator[str]:
    """A line for each sample whose pictures cannot be used, whose gold answer earns less than full marks, or that
    the strict grader cannot grade."""
    for k in range(len(samples)):
        try:
            sample = samples[k]
            for image in sample.shown_images:
                upright_rgb(image, f"sample {sample.id}")
            if loaded.task.env is not None:
                yield from episode_mistakes(loaded, sample)
                continue
            text = gold_text(loaded.task, sample)
            scores = score(gold_rollout(sample, text), loaded.rewards).scores
            loaded.graders.grade(STRICT, text, sample)
        except DataError as e:
            yield str(e)
            continue
        low = {k: v for k, v in scores.items() if v is not None and v < 1}
        if low or not any(v is not None for v in scores.values()):
            yield f"sample {sample.id}: the gold answer {text!r} earns {low or 'nothing'}"


def episode_mistakes(loaded: LoadedTask, sample: Sample) -> Iterator[str]:
    """A line if the gold episode earns less than full marks. Raises DataError if its environment fails."""
    turns, grade = grade_gold_answer(loaded.task, loaded.graders, sample, loaded.host)
    if not reaches_threshold(grade, 1.0):
        yield f"sample {sample.id}: the gold episode of {len(turns)} turns earns {grade:g}"


def gold_rollout(sample: Sample, text: str) -> Rollout:
    """A rollout whose completion is the text, without token ids."""
    row = TrainingRow(prompt=Prompt(ids=()), pieces=(Piece(ids=(), text=text, finish="stop"),))
    return Rollout(sample=sample, rows=(row,), origin="injected")


def show_prompt(loaded: LoadedTask) -> None:
    """Prints the first sample as a policy reads it: the rendered prompt of a small policy, and its lengths.

    Without torch, the messages as the pack gives them.
    """
    sample = loaded.samples[0]
    answers = gold_turns(loaded.task, sample)
    observation = next(iter(walk(sample, answers, loaded.host)[0]), None)
    if observation is None:
        raise DataError(
            f"sample {sample.id}: the gold answer has no turn, so no prompt can be shown"
        )
    if find_spec("torch") is None:
        for message in observation.messages:
            parts = map(part_text, message.content)
            print(f"{message.role}: {''.join(parts)}")
        counts = f"images: {len(observation.images)}, videos: {len(observation.videos)}"
        print(f"{counts}; install torch to count their tokens")
        print("\n".join(f"gold: {text}" for text in answers))
        return
    from vlrft.policy.load import load_policy

    policy = load_policy(PolicyConfig(build=BuildConfig()), corpus=loaded.text(64))
    prompt = policy.chat.render(
        observation.messages, observation.images, observation.videos, name=sample.id
    )
    image_tokens = [image.tokens for image in prompt.images if image.video is None]
    video_tokens = [image.tokens for image in prompt.images if image.video is not None]
    text = policy.chat.tokenizer.decode(prompt.ids)
    places = "|".join(map(re.escape, policy.chat.place_tokens))
    print(re.sub(rf"({places})\1*", r"\1 …", text).strip())
    sizes = [f"{image.width} × {image.height}" for image in observation.images]
    print(f"prompt: {len(prompt.ids)} tokens; images: {sizes or 'none'}, {image_tokens} tokens")
    if video_tokens:
        frames = [f"{len(v)} of {v.size[0]} × {v.size[1]}" for v in observation.videos]
        print(f"frames of videos: {frames}, {video_tokens} tokens")
    print("\n".join(f"gold: {text}" for text in answers))
