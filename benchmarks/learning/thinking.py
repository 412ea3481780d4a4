"""The worth of steps before the answer: RL on a question with steps beside RL on it without, and whether the steps are used.

    python -m benchmarks.learning thinking --out runs/thinking [--seeds 0 1] [--threads 1]

The last stage of --config asks one sub-task NAME_steps; the question without steps is NAME. Both continue from the same warm-up of a
seed, on the same scenes, and each beside an equal run with permuted rewards. Then the policy after RL with steps, and the warm-up,
answer test scenes after their own steps, and after changed ones. Finished runs are not repeated, and one that was stopped is
resumed. Writes --results/CONFIG.md, .json and .svg (curves of length, form and right answers).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from benchmarks.learning.outcomes import RESULTS, Case, make_rows, write_results
from benchmarks.learning.recipe import SAVE_EVERY, last_stage_tree, name_family, train, warm_up
from benchmarks.learning.steps_use import Use, measure_use
from benchmarks.learning.thinking_page import extend_page
from vlrft.config.load import load_config, stored_sections
from vlrft.config.yaml_tree import Tree
from vlrft.reporting.run_folder.names import CHECKPOINTS, LAST

STEPS = "_steps"  # ends the name of a sub-task that asks for them
USE_LIMIT = 400  # test scenes


def asked_subtasks(config: Tree) -> list[str]:
    """The sub-tasks of the last stage."""
    task: Tree = config["stages"][-1].get("task") or {}
    return list((task.get("options") or {}).get("subtasks", ()))


def with_question(config: Tree, kind: str) -> Tree:
    """The config with RL on one of the two questions."""
    *first, last = config["stages"]
    options = {**last["task"]["options"], "subtasks": [kind]}
    return {**config, "stages": [*first, {**last, "task": {**last["task"], "options": options}}]}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--config", default="digits_thinking")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--threads", type=int, default=1, help="of each run")
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args()
    config = load_config(args.config)
    tree, task = stored_sections(config), config.task
    tree["save"]["every"] = tree["save"]["every"] or SAVE_EVERY
    asked = asked_subtasks(tree)
    if len(asked) != 1 or not asked[0].endswith(STEPS) or len(config.stages) < 2:
        parser.error(
            f"{args.config}: its last stage must follow a warm-up and ask one sub-task NAME{STEPS}, not {asked}"
        )
    questions = [asked[0], asked[0].removesuffix(STEPS)]
    family, max_tokens = name_family(config), config.rollout.max_tokens
    asks_steps = replace(task, options={**task.options, "subtasks": (asked[0],)})
    runs: dict[Case, Path] = {}
    uses: dict[str, Mapping[str, Use]] = {}

    def policy_use(run: Path) -> Mapping[str, Use]:
        model = run / CHECKPOINTS / LAST
        return measure_use(model, asks_steps, config.eval.split, USE_LIMIT, max_tokens)

    for seed in args.seeds:
        warm = warm_up(tree, seed, args.out, args.threads)
        assert warm is not None  # stages were counted
        uses[f"warm-up, seed {seed}"] = policy_use(warm)
        for kind in questions:
            for control in (False, True):
                case = Case(family=f"{family}, RL on {kind}", seed=seed, control=control)
                stage = last_stage_tree(with_question(tree, kind), case, warm)
                runs[case] = train(stage, args.out / kind / case.name, args.threads)
                if kind == asked[0] and not control:
                    uses[f"after RL, seed {seed}"] = policy_use(runs[case])
                page = args.results / Path(args.config).stem
                command = " ".join(["thinking", *sys.argv[1:]])
                write_results(make_rows(runs), page, command, args.threads)
                extend_page(page, runs, uses, USE_LIMIT)


if __name__ == "__main__":
    main()
