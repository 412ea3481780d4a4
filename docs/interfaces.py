"""Writes the reference pages of the config, the command line, the Python API and the metrics: `python docs/interfaces.py`."""

from __future__ import annotations

from pathlib import Path

from api_page import api_page
from cli_page import cli_page
from config_page import config_page
from metrics_page import metrics_page

FOLDER = Path(__file__).parent / "reference"
PAGES = {
    "config.md": config_page,
    "cli.md": cli_page,
    "api.md": api_page,
    "metrics.md": metrics_page,
}

if __name__ == "__main__":
    for file, page in PAGES.items():
        (FOLDER / file).write_text(page(), encoding="utf-8")
