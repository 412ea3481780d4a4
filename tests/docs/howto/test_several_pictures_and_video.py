"""The settings of the page on several pictures and videos are accepted, and mean what it says."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.docs.pages import files, read_page
from vlrft.config.load import load_config

PAGE = read_page("docs/howto/several_pictures_and_video.md")
REST = {"policy": {"build": {}}, "stages": [{"steps": 1}]}


def test_each_block_is_part_of_a_config(tmp_path: Path) -> None:
    named = {name: yaml.safe_load(text) for name, text in files(PAGE).items()}
    several, examples = named["pictures.yaml"], named["examples.yaml"]
    several["policy"] |= REST["policy"]
    configs = []
    for k, tree in enumerate((several, examples)):
        path = tmp_path / f"{k}.yaml"
        path.write_text(yaml.safe_dump({**REST, **tree}))
        configs.append(load_config(str(path)))
    assert configs[0].stages[0].rollout.max_images == 4
    assert configs[0].policy.max_prompt_pixels == 2 * (configs[0].policy.max_pixels or 0)
    assert configs[1].stages[0].task.examples.count == 2
