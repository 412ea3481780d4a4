"""The commands of `vlrft` and their arguments. `cli.main` parses them, the modules of `cli.commands` run them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from vlrft.schema.ranges import MAX_SEED, Range

CONFIG = "a YAML file, or a name that `vlrft list configs` prints"
TASK = "a name that `vlrft list tasks` prints, package.module:task or ./file.py:task"
REWARD = "a name that `vlrft list rewards` prints, package.module:function or ./file.py:function"
OVERRIDES = (
    "changed config keys: key.path=value, such as rollout.group_size=16 or stages.1.steps=50"
)
OPTIONS = "options of the task, such as options.k=4"
SPLITS = "a split; may be repeated (default: all)"
GRADERS = ("official", "strict", "both")

COUNT = Range(ge=1)  # of samples or ranks

AddCommand = Callable[[str, str], argparse.ArgumentParser]  # name, one-line description


def path_argument(text: str) -> Path:
    """The path that an option names, refused where its text is empty, as of a variable that is not set: it would be the
    current folder; or where its bytes are not UTF-8."""
    if not text.strip():
        raise argparse.ArgumentTypeError("empty; expected a path")
    if not text.isascii() and text != text.encode(errors="replace").decode():
        raise argparse.ArgumentTypeError(
            "not UTF-8; configs and reports could not name such a path"
        )
    return Path(text)


def number(kind: type[int] | type[float], allowed: Range) -> Callable[[str], float]:
    """An argument that is a number in a range."""

    def parse(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected a number, got {text!r}") from None
        if value not in allowed:
            raise argparse.ArgumentTypeError(f"{text} is out of range; allowed: {allowed}")
        return value

    return parse


def add_training(add: AddCommand) -> None:
    """train, launch, report."""
    train = add("train", "train a policy through all stages of a config")
    launch = add("launch", "train in several processes of this machine, each with its own GPU")
    launch.add_argument(
        "--ranks", type=number(int, COUNT), required=True, metavar="N", help="number of processes"
    )
    for command in (train, launch):
        command.add_argument("config", help=CONFIG)
        command.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help=OVERRIDES)
        command.add_argument(
            "--out",
            type=path_argument,
            metavar="DIR",
            help="folder of the run (default: runs/CONFIG)",
        )
        command.add_argument(
            "--resume", action="store_true", help="continue from the last good checkpoint of DIR"
        )
        command.add_argument(
            "--overwrite", action="store_true", help="replace the run that DIR holds"
        )

    report = add("report", "write the report of a run again: RUN/report.html")
    report.add_argument("run", type=path_argument, help="folder of the run")


def add_evaluation(add: AddCommand) -> None:
    """eval, score, compare."""
    evaluate = add("eval", "evaluate a model on a task with all graders of the task")
    evaluate.add_argument(
        "overrides",
        nargs="*",
        metavar="KEY=VALUE",
        help="options of the task and settings: options.canvas=[112], rollout.max_tokens=64, "
        "eval.answers=8, eval.temperature=0.6, policy.dtype=float32",
    )
    evaluate.add_argument(
        "--model", required=True, help="a model on the Hugging Face hub, or a folder with one"
    )
    source = evaluate.add_mutually_exclusive_group(required=True)
    source.add_argument("--task", help=TASK)
    source.add_argument(
        "--config", help="take task, rollout and eval from this config, in place of --task"
    )
    evaluate.add_argument("--split", help="a split (default: the config's, or test)")
    evaluate.add_argument(
        "--limit", type=number(int, COUNT), metavar="N", help="only the first N samples"
    )
    evaluate.add_argument(
        "--json",
        type=path_argument,
        metavar="FILE",
        help="write the metrics, and every answer next to them; an interrupted evaluation continues",
    )
    evaluate.add_argument("--overwrite", action="store_true", help="replace FILE")

    score = add("score", "grade stored outputs of any model, without running a model")
    score.add_argument("task", help=TASK)
    score.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help=OPTIONS)
    score.add_argument(
        "--predictions",
        type=path_argument,
        required=True,
        metavar="ROWS",
        help='outputs, one row each: {"id", "output"}, with "answer" when the data are not here',
    )
    score.add_argument("--data", metavar="PATH", help="the task's data, as options.data")
    score.add_argument("--split", default="test", help="split of the samples (default: test)")
    score.add_argument(
        "--grader", choices=GRADERS, default="both", help="graders to apply (default: both)"
    )
    score.add_argument(
        "--json", type=path_argument, metavar="FILE", help="write metrics and records"
    )
    score.add_argument("--overwrite", action="store_true", help="replace FILE")

    compare = add("compare", "compare two evaluations of the same samples, paired by sample")
    compare.add_argument(
        "before",
        type=path_argument,
        help="a file that `vlrft eval` or `vlrft score` wrote with --json",
    )
    compare.add_argument("after", type=path_argument, help="another one, of the same samples")
    compare.add_argument(
        "--grader", choices=GRADERS, default="both", help="grades to compare (default: both)"
    )
    compare.add_argument(
        "--by",
        default="kind",
        metavar="TAG",
        help="tag of the samples; one row for each of its values (default: kind)",
    )
    compare.add_argument(
        "--threshold",
        type=number(float, Range()),
        metavar="X",
        help="count a grade of at least X as correct (default: as in the metric)",
    )
    compare.add_argument("--json", type=path_argument, metavar="FILE", help="write the comparison")
    compare.add_argument("--overwrite", action="store_true", help="replace FILE")


def add_inspection(add: AddCommand) -> None:
    """list, show, doctor."""
    listing = add(
        "list", "list tasks, rewards, algorithms, configs, engines or model families by name"
    )
    listing.add_argument(
        "kind",
        nargs="?",
        choices=["tasks", "rewards", "algorithms", "configs", "engines", "families"],
        help="only this kind (default: tasks and rewards)",
    )
    listing.add_argument("--json", action="store_true", help="print JSON")

    show = add(
        "show", "print a config with all its keys, or describe a task, reward, algorithm or engine"
    )
    show.add_argument("name", help="a YAML file, or a name that `vlrft list` prints")
    show.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help=OVERRIDES)

    doctor = add("doctor", "check versions and devices; plan the peak memory of a config's run")
    doctor.add_argument("config", nargs="?", help=CONFIG)
    doctor.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help=OVERRIDES)
    doctor.add_argument(
        "--memory",
        metavar="SIZE",
        help="memory of the device, such as 80GiB; with device=cuda it plans for a GPU that is not here "
        "(default: the device's own)",
    )
    doctor.add_argument(
        "--ranks",
        type=number(int, COUNT),
        default=1,
        metavar="N",
        help="plan for one of N ranks (default: 1)",
    )


def add_authoring(add: AddCommand) -> None:
    """data, check, check reward, new."""
    data = add("data", "prepare the data of a task, or show them")
    data.add_argument("action", choices=["prepare", "show"], help="what to do")
    data.add_argument("task", help=TASK)
    data.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help=OPTIONS)
    data.add_argument(
        "--from",
        dest="where",
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
        "--seed",
        type=number(int, Range(ge=0, le=MAX_SEED)),
        default=0,
        metavar="N",
        help="prepare: seed of data that are made (default: 0)",
    )
    data.add_argument(
        "--html", type=path_argument, metavar="FILE", help="show: write a contact sheet"
    )
    data.add_argument("--overwrite", action="store_true", help="replace DIR's rows, or FILE")

    check = add("check", "grade a task's own gold answers with its strict rewards; show one prompt")
    check.add_argument("task", help=TASK)
    check.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help=OPTIONS)
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
    reward.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help=OPTIONS)
    reward.add_argument("--task", required=True, help=TASK)
    reward.add_argument("--split", help="a split (default: the task's first)")
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


COMMANDS = (add_training, add_evaluation, add_inspection, add_authoring)  # in the order of --help
