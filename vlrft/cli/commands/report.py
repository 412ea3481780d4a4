"""vlrft report: the report of a run, written again, or the page of an evaluation."""

from __future__ import annotations

import argparse
from pathlib import Path

from vlrft.cli.evaluation_html import write_html
from vlrft.cli.outputs import claim_file
from vlrft.config import TaskConfig
from vlrft.evaluation.result_files import read_results
from vlrft.reporting.html.page import summary_table, write_report
from vlrft.schema import DataError
from vlrft.schema.errors import ConfigError


def run(args: argparse.Namespace) -> None:
    if args.run.suffix == ".json":
        report_evaluation(args.run, overwrite=args.overwrite)
        return
    if args.overwrite:
        raise ConfigError(["--overwrite: a run's report is always written again; leave it out"])
    path = write_report(args.run)
    print(summary_table(args.run))
    print(f"report: {path}")


def report_evaluation(file: Path, *, overwrite: bool) -> None:
    """Writes the page of a file that `vlrft eval` or `vlrft score` wrote with --json. Raises DataError, ConfigError."""
    results, records = read_results(file)
    if missing := [key for key in ("task", "split", "n") if key not in results]:
        raise DataError(f"{file}: has no {missing[0]!r}, so vlrft eval or score did not write it")
    page = file.with_suffix(".html")
    claim_file(page, "name of the JSON", overwrite=overwrite, inputs=(file,))
    task = None  # outputs that were scored by their own gold answers
    if "options" in results:
        task = TaskConfig(name=str(results["task"]), options=results["options"])
    write_html(page, results, records, task)
    print(f"report: {page}")
