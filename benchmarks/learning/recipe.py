"""The gain of a config's last stage, over seeds, beside equal runs with permuted rewards.

    python -m benchmarks.learning recipe CONFIG --out DIR [--seeds 0 1 2] [--control-seeds …] [--threads 1] [--jobs 1] [KEY=VALUE …]

All stages but the last are a seed's warm-up, which is trained once; real and permuted rewards continue from its checkpoint. A
config of one stage has no warm-up: its runs begin with policy.model. Finished runs are not repeated, but refused where the
arguments ask for other settings; one that was stopped is resumed from its last checkpoint. After each run the finished ones are
printed, and written to --results as NAME.md and .json. Gains are paired by sample, those over the control, too.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

import yaml

from benchmarks.learning.outcomes import RESULTS, Case, make_rows, write_results
from benchmarks.learning.runs import train_once
from vlrft.config import Config
from vlrft.config.load import load_config, stored_sections
from vlrft.config.yaml_tree import Tree
from vlrft.reporting.run_folder.names import CHECKPOINTS, LAST

SAVE_EVERY = 10  # steps, where the config does not say: what a stopped run loses at most


def warm_up_tree(config: Tree, seed: int) -> Tree:
    """The config of a seed's warm-up. It is evaluated on one sample: the runs that continue begin with an evaluation."""
    stages = config["stages"][:-1]
    return {**config, "stages": stages, "seed": seed, "eval": {**config["eval"], "limit": 1}}


def last_stage_tree(config: Tree, case: Case, warm: Path | None) -> Tree:
    """The config of a run of the last stage, from the warm-up in `warm` if there is one."""
    policy = config["policy"]
    if warm is not None:
        policy = {**policy, "build": None, "model": str(warm / CHECKPOINTS / LAST)}
    return {
        **config,
        "policy": policy,
        "stages": config["stages"][-1:],
        "seed": case.seed,
        "permute_rewards": case.control,
    }


def train(config: Tree, run: Path, threads: int) -> Path:
    """The folder of a finished run with this config."""
    path = run.with_suffix(".yaml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return train_once(path, (), run, threads=threads, resume=True)


def warm_up(config: Tree, seed: int, out: Path, threads: int) -> Path | None:
    """The folder of a seed's warm-up; None for a config of one stage."""
    if len(config["stages"]) == 1:
        return None
    return train(warm_up_tree(config, seed), out / f"seed{seed}_warm", threads)


def name_family(config: Config) -> str:
    """The model of the rows: the family of a policy that is built, or the name of its folder; of a checkpoint, its run's."""
    if config.policy.build is not None:
        return config.policy.build.family
    folder = Path(str(config.policy.model))
    return folder.parents[1].name if folder.parts[-2:] == (CHECKPOINTS, LAST) else folder.name


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("config")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--control-seeds", type=int, nargs="*", help="default: those of --seeds")
    parser.add_argument("--threads", type=int, default=1, help="of each run")
    parser.add_argument("--jobs", type=int, default=1, help="seeds at the same time")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--name", help="of the results; default: that of the config")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="settings of all runs")
    args = parser.parse_intermixed_args()
    config = load_config(args.config, args.settings)
    tree = stored_sections(config)
    tree["save"]["every"] = tree["save"]["every"] or SAVE_EVERY
    controls = args.seeds if args.control_seeds is None else args.control_seeds
    cases = [
        Case(family=name_family(config), seed=seed, control=control)
        for seed in args.seeds
        for control in (False, True)
        if seed in controls or not control
    ]
    command, results = " ".join(["recipe", *sys.argv[1:]]), args.name or Path(args.config).stem
    reporting, finished = Lock(), dict[Case, Path]()

    def report(case: Case, run: Path) -> None:
        finished[case] = run
        rows = make_rows({case: finished[case] for case in cases if case in finished})
        write_results(rows, args.results / results, command, args.threads)

    def run_seed(seed: int) -> None:
        warm = warm_up(tree, seed, args.out, args.threads)
        for case in (case for case in cases if case.seed == seed):
            run = train(last_stage_tree(tree, case, warm), args.out / case.name, args.threads)
            with reporting:
                report(case, run)

    with ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(run_seed, args.seeds))


if __name__ == "__main__":
    main()
