"""The reference page of the metrics, from `vlrft.reporting.metric_docs`."""

from __future__ import annotations

from vlrft.reporting.metric_docs import METRIC_DOCS

INTRODUCTION = """# Metrics

The columns of a run's `metrics.jsonl`, one row per step, which trackers and the report show too. Written by
`python docs/interfaces.py`. A metric that does not apply to a step is not in its row. Evaluations are in `summary.json`.
"""


def metrics_page() -> str:
    """The page as Markdown."""
    parts = [INTRODUCTION]
    for section, metrics in METRIC_DOCS.items():
        rows = [f"| `{name}` | {meaning} |" for name, meaning in metrics.items()]
        parts.append(
            "\n".join([f"## {section}\n", "| metric | meaning |", "| --- | --- |", *rows, ""])
        )
    return "\n".join(parts)
