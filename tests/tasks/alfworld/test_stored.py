"""Stored translations: read instead of made, equal to made ones, and left aside when they belong to something else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from vlrft.tasks.alfworld import engine, stored
from vlrft.tasks.alfworld.translation import translate

from tests.tasks.alfworld.generated import COUNTS, generate_games

pytestmark = pytest.mark.usefixtures("data")


def texts(game: Path) -> tuple[str, str]:
    data = json.loads(game.read_text(encoding="utf-8"))
    return data["pddl_domain"], data["pddl_problem"]


def test_what_is_stored_is_the_translation(files: list[Path]) -> None:
    for game in files:
        domain, problem = texts(game)
        found = stored.unpack(game.with_name(stored.FILE), domain, problem)
        made = translate(domain, problem)
        assert found is not None
        assert (found.kinds, found.parameters, found.types) == (
            made.kinds,
            made.parameters,
            made.types,
        )
        assert sorted(map(str, found.facts)) == sorted(map(str, made.facts))
        assert stored.unpack_bytes(stored.pack(made, domain, problem), domain, problem) == made


def test_a_game_starts_without_a_translation(
    files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    started = [engine.Game(game).start() for game in files]

    def refuse(domain: str, problem: str) -> None:
        raise AssertionError("translated")

    monkeypatch.setattr(stored, "translate", refuse)
    stored.find_translation.cache_clear()
    assert [engine.Game(game).start() for game in files] == started


@pytest.mark.parametrize("content", [b"", b"damaged", None])
def test_a_damaged_or_missing_file_is_left_aside(
    files: list[Path], tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / stored.FILE
    if content is not None:
        file.write_bytes(content)
    assert stored.unpack(file, *texts(files[0])) is None
    file.write_bytes(files[0].with_name(stored.FILE).read_bytes()[:-20])
    assert stored.unpack(file, *texts(files[0])) is None


def test_the_translation_of_another_problem_or_translator_is_left_aside(
    files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = files[0].with_name(stored.FILE)
    domain, problem = texts(files[0])
    assert stored.unpack(file, domain, texts(files[1])[1]) is None
    assert stored.unpack(file, domain + "\n", problem) is None
    monkeypatch.setattr(stored, "translator_version", lambda: "0")
    assert stored.unpack(file, domain, problem) is None


def test_games_of_an_earlier_version_get_theirs(data: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(data, copy)
    lost = next(copy.glob(f"train/*/*/{stored.FILE}"))
    lost.unlink()
    generate_games(copy, "train", COUNTS["train"])
    assert stored.unpack(lost, *texts(lost.with_name("game.tw-pddl"))) is not None
