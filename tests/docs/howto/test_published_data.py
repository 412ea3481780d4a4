"""The commands of docs/howto/published_data.md prepare small copies of the published data sets, under the page's names of folders."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import command, read_page
from tests.fixtures.published.forms import write
from tests.fixtures.published.record import load_records
from vlrft.cli.main import main
from vlrft.plugins.find import find_task

PAGE = read_page("docs/howto/published_data.md")
COPIES = {  # the page's folder -> the record and the form that it is a copy of
    "geometry3k": ("geometry3k_hub", "snapshot"),
    "GEOQA_R1V_Train_8K": ("geoqa_train", "snapshot"),
    "R1-V": ("geoqa_test", "folder"),
    "clevr_cogen_a_train": ("counting_train", "snapshot"),
    "R1-V-counting": ("counting_test", "folder"),
    "SAT": ("sat_train", "snapshot"),
    "CV-Bench": ("cvbench", "snapshot"),
    "ViRFT_CLS_pets37_4shot": ("virft_pets", "snapshot"),
    "oxford_pets": ("pets_coop", "folder"),
}
COMMANDS = sorted(set(re.findall(r"vlrft data prepare .*--from downloads/(\S+)", PAGE)))


def test_every_folder_of_the_page_is_tried() -> None:
    assert set(COMMANDS) == set(COPIES)


@pytest.mark.parametrize("folder", COMMANDS)
def test_a_command_of_the_page_prepares_a_copy(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    record, form = COPIES[folder]
    copy = write(load_records()[record], form, tmp_path / "copy")
    assert copy.data is not None
    Path("downloads").mkdir()
    Path("downloads", folder).symlink_to(copy.data)
    words = command(PAGE, f"--from downloads/{folder} ")
    assert main(words) == 0
    out = Path(words[words.index("--out") + 1])
    splits = [words[words.index("--split") + 1]] if "--split" in words else ["train", "test"]
    assert all((out / f"{split}.jsonl").stat().st_size for split in splits)
    assert not list(out.glob("*.part"))


def test_show_lists_the_forms_that_the_page_names(capsys: pytest.CaptureFixture[str]) -> None:
    for pack in ("geometry3k", "geoqa", "counting", "sat", "finegrained"):
        assert (
            main(["show", pack, *(["options.dataset=cars196"] if pack == "finegrained" else [])])
            == 0
        )
        printed = capsys.readouterr().out
        layouts = find_task(pack).load.read.layouts  # type: ignore[attr-defined]
        mine = [k for k in layouts if k.options in ({}, {"dataset": "cars196"})]
        assert all(layout.name in printed for layout in mine)
    assert "pets.pth" not in printed
    assert "train: laolao77/ViRFT_CLS_car196_4shot\n" in printed
    assert "test: not on the hub; give its place with options.data\n" in printed
