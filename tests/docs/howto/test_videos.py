"""The config of the page on videos loads, and trains on the data that its command prepares."""

from __future__ import annotations

from pathlib import Path

from tests.docs.pages import files, read_page
from vlrft.config.load import load_config

PAGE = read_page("docs/howto/videos.md")


def test_the_config_of_the_page_loads(tmp_path: Path) -> None:
    path = tmp_path / "charades.yaml"
    path.write_text(files(PAGE)["charades.yaml"])
    task = load_config(str(path)).task
    assert f"vlrft data prepare {task.name} --from charades --out {task.options['data']}" in PAGE
