"""Arguments of eval, score and compare."""

from __future__ import annotations

from vlrft.cli.arguments.common import (
    COUNT,
    GRADERS,
    OPTIONS,
    TASK,
    AddCommand,
    not_empty,
    number,
    path_argument,
)
from vlrft.schema.ranges import Range


def add_evaluation(add: AddCommand) -> None:
    """Adds eval, score and compare."""
    evaluate = add("eval", "evaluate a model on a task with all graders of the task")
    evaluate.add_argument(
        "overrides",
        nargs="*",
        default=[],
        metavar="KEY=VALUE",
        help="options of the task and settings: options.canvas=[112], rollout.max_tokens=64, "
        "eval.answers=8, eval.temperature=0.6, policy.dtype=float32",
    )
    evaluate.add_argument(
        "--model",
        type=not_empty,
        required=True,
        help="a model on the Hugging Face hub, a folder with one, or a run's folder (its newest checkpoint)",
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
    evaluate.add_argument(
        "--html",
        type=path_argument,
        metavar="FILE",
        help="write one page to look at: metrics, classes, boxes, and answers with their pictures",
    )
    evaluate.add_argument("--overwrite", action="store_true", help="replace FILE")

    score = add("score", "grade stored outputs of any model, without running a model")
    score.add_argument("task", help=TASK)
    score.add_argument("overrides", nargs="*", default=[], metavar="KEY=VALUE", help=OPTIONS)
    score.add_argument(
        "--predictions",
        type=path_argument,
        required=True,
        metavar="ROWS",
        help='outputs: rows {"id", "output"}, with "answer" when the data are not here; lmms-eval\'s samples, '
        "VLMEvalKit's tables, R1-V's results; jsonl, json, csv, tsv, parquet, xlsx",
    )
    for part in ("id", "output", "answer"):
        score.add_argument(
            f"--{part}-key", metavar="COLUMN", help=f"column of the {part} (default: found by name)"
        )
    score.add_argument(
        "--untagged",
        action="store_true",
        help="an output without <answer> tags is the answer as a whole, thinking aside: of models that were not asked for them",
    )
    score.add_argument(
        "--data", type=not_empty, metavar="PATH", help="the task's data, as options.data"
    )
    score.add_argument("--split", default="test", help="split of the samples (default: test)")
    score.add_argument(
        "--grader", choices=GRADERS, default="both", help="graders to apply (default: both)"
    )
    score.add_argument(
        "--json", type=path_argument, metavar="FILE", help="write metrics and records"
    )
    score.add_argument(
        "--html",
        type=path_argument,
        metavar="FILE",
        help="write one page to look at: metrics, classes, boxes, and answers with their pictures",
    )
    score.add_argument("--overwrite", action="store_true", help="replace FILE")

    compare = add("compare", "compare two evaluations of the same samples, paired by sample")
    compare.add_argument(
        "before",
        type=path_argument,
        help="a file that `vlrft eval` or `vlrft score` wrote with --json, or the folder of a run: its last evaluation, or with "
        "@STEP the one after that step, such as runs/demo@0",
    )
    compare.add_argument("after", type=path_argument, help="another one, of the same samples")
    compare.add_argument(
        "--grader", choices=GRADERS, default="both", help="grades to compare (default: both)"
    )
    compare.add_argument(
        "--by",
        metavar="TAG",
        help="tag of the samples; one row for each of its values (default: kind, where there is one)",
    )
    compare.add_argument(
        "--threshold",
        type=number(float, Range()),
        metavar="X",
        help="count a grade of at least X as correct (default: as in the metric)",
    )
    compare.add_argument("--json", type=path_argument, metavar="FILE", help="write the comparison")
    compare.add_argument("--overwrite", action="store_true", help="replace FILE")
