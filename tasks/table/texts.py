"""Options that are a text or the name of a text file."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from vlrft.schema import DataError

FILES = (".txt", ".md")


@cache
def read_text(option: str | None, key: str) -> str | None:
    """The text of an option: that of a file of this name, or the option itself. Raises DataError for a file that is not there."""
    if option is None or "\n" in option:
        return option
    path = Path(option).expanduser()
    try:
        if path.is_file():
            return path.read_text(encoding="utf-8").removesuffix("\n")
    except (OSError, UnicodeDecodeError) as e:
        raise DataError(f"options.{key}: {option} cannot be read ({e})") from e
    if path.suffix in FILES and " " not in option:
        raise DataError(
            f"options.{key}: no file {option}; give an existing file or the text itself"
        )
    return option
