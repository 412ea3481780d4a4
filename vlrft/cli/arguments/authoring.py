"""Arguments of data, check, check reward and new."""

from __future__ import annotations

from pathlib import Path

from vlrft.cli.arguments.common import (
    COUNT,
    OPTIONS,
    REWARD,
    SPLITS,
    TASK,
    AddCommand,
    not_empty,
    number,
    path_argument,
)
from vlrft.schema.ranges import MAX_SEED, Range


def add_authoring(add: AddCommand) -> None:
    """Adds data, check, check reward and new."""
    data = add("data", "prepare the data of a task, or show them")
    data.add_argument("action", choices=["prepare", "show"], help="what to do")
    data.add_argument("task", help=TASK)
    data.add_argument("overrides", nargs="*", default=[], metavar="KEY=VALUE", help=OPTIONS)
    data.add_argument(
        "--from",
        dest="where",
        type=not_empty,
        metavar="PATH",
        help="the raw data: a data set on the hub, a folder, a zip or a table",
    )
    data.add_argument(
        "--out", type=path_argument, metavar="DIR", help="prepare: the folder to write"
    )
    data.add_argument("--split", action="append", help=SPLITS)
    data.add_argument(
        "--count",
        action="append",
        metavar="SPLIT=N",
        help="prepare, for a task that makes its data: samples of a split, such as train=200; may be repeated or "
        "separated by commas",
    )
    data.add_argument(
        "--thoughts",
        type=path_argument,
        metavar="FILE",
        help="prepare: a table of the columns id and thought; the thought of a row's id is the reasoning that sft teaches before "
        "its gold answer",
    )
    data.add_argument(
        "--synthetic",
        type=number(int, COUNT),
        metavar="N",
        help="prepare: instead of the published data, N made-up rows of each split in the published form, to try a task "
        "without a download",
    )
    data.add_argument(
        "--seed",
        type=number(int, Range(ge=0, le=MAX_SEED)),
        metavar="N",
        help="prepare: seed of data that are made (default: 0)",
    )
    data.add_argument(
        "--model",
        type=not_empty,
        help="prepare: also leave out rows whose prompt is too long for this model (a hub id, a folder or a run's folder); "
        "its pixel bounds are set with policy.max_pixels=N",
    )
    data.add_argument(
        "--max-prompt-tokens",
        type=number(int, COUNT),
        metavar="N",
        help="prepare --model: the most tokens of a prompt, images included (default: that of rollout.max_prompt_tokens)",
    )
    data.add_argument(
        "--html", type=path_argument, metavar="FILE", help="show: write a contact sheet"
    )
    data.add_argument("--overwrite", action="store_true", help="replace DIR's rows, or FILE")

    check = add("check", "grade a task's own gold answers with its strict rewards; show one prompt")
    check.add_argument("task", help=TASK)
    check.add_argument("overrides", nargs="*", default=[], metavar="KEY=VALUE", help=OPTIONS)
    check.add_argument("--split", action="append", help=SPLITS)
    check.add_argument(
        "--limit",
        type=number(int, COUNT),
        default=500,
        metavar="N",
        help="samples of each split (default: 500)",
    )

    reward = add(
        "check reward", "try to game a reward on samples of a task; exit code 1 if it can be"
    )
    reward.add_argument("reward", help=REWARD)
    reward.add_argument("overrides", nargs="*", default=[], metavar="KEY=VALUE", help=OPTIONS)
    reward.add_argument("--task", required=True, help=TASK)
    reward.add_argument("--split", help="a split (default: the task's first)")
    reward.add_argument(
        "--kind",
        choices=["answer", "style"],
        default="answer",
        help="style: a reward of length, form or diversity, which may pay for wrong answers (default: answer)",
    )
    reward.add_argument(
        "--limit",
        type=number(int, COUNT),
        default=100,
        metavar="N",
        help="number of samples (default: 100)",
    )
    reward.add_argument(
        "--predictions",
        type=path_argument,
        metavar="ROWS",
        help='also try these stored outputs, one row each: {"id", "output"}',
    )
    reward.add_argument(
        "--time-limit",
        type=number(float, Range(gt=0)),
        default=5.0,
        metavar="S",
        help="seconds of a call (default: 5)",
    )
    reward.add_argument(
        "--completions",
        choices=["chat", "text"],
        help="form of the completions that a TRL-style function gets (default: text if annotated list[str], "
        "otherwise chat)",
    )
    reward.add_argument("--json", action="store_true", help="print JSON")

    for kind in ("reward", "task"):
        new = add(f"new {kind}", f"write NAME.py, a small complete {kind} to start from")
        new.set_defaults(module="new", kind=kind)
        new.add_argument("name", metavar="NAME", help=f"name of the file and of the {kind} in it")
        new.add_argument(
            "--out",
            type=path_argument,
            default=Path(),
            metavar="DIR",
            help="folder of the file (default: this one)",
        )
        new.add_argument("--overwrite", action="store_true", help="replace NAME.py")
