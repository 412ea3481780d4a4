"""Arguments of train, launch and report."""

from __future__ import annotations

from vlrft.cli.arguments.common import CONFIG, COUNT, OVERRIDES, AddCommand, number, path_argument


def add_training(add: AddCommand) -> None:
    """Adds train, launch and report."""
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
