"""Arguments of list, show and doctor."""

from __future__ import annotations

from typing import get_args

from vlrft.cli.arguments.common import CONFIG, COUNT, OVERRIDES, AddCommand, number, path_argument
from vlrft.config.systems import Kind, Status


def add_inspection(add: AddCommand) -> None:
    """Adds list, show and doctor."""
    listing = add(
        "list",
        "list tasks, rewards, algorithms, configs, engines, model families or published systems by name",
    )
    listing.add_argument(
        "kind",
        nargs="?",
        choices=["tasks", "rewards", "algorithms", "configs", "engines", "families", "systems"],
        help="only this kind (default: tasks and rewards)",
    )
    listing.add_argument(
        "--status", choices=get_args(Status), help="of systems: only those of this status"
    )
    listing.add_argument(
        "--of",
        choices=get_args(Kind),
        metavar="KIND",
        help="of systems: only those of this kind, such as objective",
    )
    listing.add_argument("--json", action="store_true", help="print JSON")

    show = add(
        "show",
        "print a config with all its keys, or describe a task, reward, algorithm, engine or published system",
    )
    show.add_argument("name", help="a YAML file, or a name that `vlrft list` prints")
    show.add_argument("overrides", nargs="*", default=[], metavar="KEY=VALUE", help=OVERRIDES)

    doctor = add("doctor", "check versions and devices; plan the peak memory of a config's run")
    doctor.add_argument("config", nargs="?", help=CONFIG)
    doctor.add_argument("overrides", nargs="*", default=[], metavar="KEY=VALUE", help=OVERRIDES)
    doctor.add_argument(
        "--memory",
        metavar="SIZE",
        help="memory of the device, such as 80GiB (80 alone is in GiB); with device=cuda it plans for a GPU that is not here "
        "(default: the device's own)",
    )
    doctor.add_argument(
        "--ranks",
        type=number(int, COUNT),
        metavar="N",
        help="plan for one of N ranks (default: the config's ranks.count, or 1)",
    )
    doctor.add_argument(
        "--write",
        type=path_argument,
        metavar="FILE",
        help="write a config that fits: this one where it does, otherwise the proposed one",
    )
