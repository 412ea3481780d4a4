"""Arguments of train, launch and report."""

from __future__ import annotations

from vlrft.cli.arguments.common import CONFIG, COUNT, OVERRIDES, AddCommand, number, path_argument


def add_training(add: AddCommand) -> None:
    """Adds train, launch and report."""
    train = add("train", "train a policy through all stages of a config")
    launch = add("launch", "train in several processes of this machine, each with its own GPU")
    launch.add_argument(
        "--ranks",
        type=number(int, COUNT),
        metavar="N",
        help="number of processes (default: the config's ranks.count)",
    )
    for command in (train, launch):
        command.add_argument("config", help=CONFIG)
        command.add_argument(
            "overrides", nargs="*", default=[], metavar="KEY=VALUE", help=OVERRIDES
        )
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

    report = add("report", "write the page of a run again, or the page of an evaluation")
    report.add_argument(
        "run",
        type=path_argument,
        metavar="RUN",
        help="folder of a run (writes RUN/report.html), or the file of an evaluation's --json (writes FILE.html)",
    )
    report.add_argument("--overwrite", action="store_true", help="replace FILE.html")
