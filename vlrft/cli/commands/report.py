"""vlrft report: the report of a run, written again."""

from __future__ import annotations

import argparse

from vlrft.reporting.html.page import summary_table, write_report


def run(args: argparse.Namespace) -> None:
    path = write_report(args.run)
    print(summary_table(args.run))
    print(f"report: {path}")
