"""Names in and of the folder of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from vlrft.reporting.run_folder.names import default_folder


@pytest.mark.parametrize(
    ("config", "folder"),
    [("quickstart", "quickstart"), ("mine/a.yaml", "a"), ("system:124", "system_124")],
)
def test_a_run_that_is_given_no_folder_has_the_name_of_its_config(config: str, folder: str) -> None:
    assert default_folder(config) == default_folder(Path(config)) == Path("runs", folder)
