"""Files that a command writes: nothing is overwritten unless asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from vlrft.data.atomic import draft_path
from vlrft.evaluation.result_files import holds_records, records_path
from vlrft.schema.errors import ConfigError

RESULTS = ".json"  # suffix of the results of an evaluation


def claim_file(
    path: Path | None, option: str, *, overwrite: bool, inputs: Iterable[Path] = ()
) -> None:
    """Makes the folder of the file that `option` names, before the work whose result it gets.

    Raises ConfigError where the file exists and may not be overwritten, is one of `inputs`, or cannot be written.
    """
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        exists = path.exists() or path.is_symlink()
        _try_to_write(path.parent)
        read = any(path.exists() and file.exists() and path.samefile(file) for file in inputs)
    except OSError as e:
        shown = str(path) if len(str(path)) <= 200 else f"{str(path)[:200]}…"
        raise ConfigError([f"{shown}: cannot be written ({e.strerror})"]) from None
    if path.is_dir():
        raise ConfigError([f"{path} is a folder; give a file as {option}"])
    if read:
        raise ConfigError([f"{path} is read by this command; use another {option}"])
    if exists and not overwrite:
        raise ConfigError([f"{path} exists; use --overwrite or another {option}"])


def _try_to_write(folder: Path) -> None:
    """Raises OSError where no file can be made in the folder."""
    draft = draft_path(folder)
    draft.touch(exist_ok=False)
    draft.unlink()


def claim_files(
    files: Mapping[str, Path | None], *, overwrite: bool, inputs: Iterable[Path] = ()
) -> None:
    """`claim_file` for each option with its file, None where it is not given. Raises ConfigError as it does, and for `overwrite`
    without any file."""
    if overwrite and all(path is None for path in files.values()):
        raise ConfigError(
            [
                f"--overwrite: no file is written that it could replace; give {' or '.join(files)}, or leave it out"
            ]
        )
    for option, path in files.items():
        claim_file(path, option, overwrite=overwrite, inputs=inputs)


def data_paths(options: Mapping[str, object]) -> tuple[Path, ...]:
    """The file or folder that a task's options name as its data, for `inputs` of `claim_file`."""
    data = options.get("data")
    return (Path(data).expanduser(),) if isinstance(data, str) else ()


def refuse_same_file(json: Path | None, html: Path | None) -> None:
    """Raises ConfigError where the page would replace the results or their records."""
    if json is None or html is None:
        return
    for path in (json, records_path(json)):
        if path.resolve() == html.resolve():
            raise ConfigError([f"--json and --html both write {path}; give two files"])


def refuse_other_suffix(json: Path | None) -> None:
    """Raises ConfigError for results under a name that the other commands would not know them by, and whose records could be those
    of another name."""
    if json is not None and json.suffix != RESULTS:
        raise ConfigError(
            [
                f"--json {json}: give a name that ends in {RESULTS}, by which vlrft compare and vlrft report know it"
            ]
        )


def refuse_foreign_records(out: Path) -> Path:
    """The path of the records next to the results in `out`. Raises ConfigError where it is a file without records, which
    is not vlrft's to replace."""
    path = records_path(out)
    if path.exists() and not holds_records(path):
        raise ConfigError([f"{path} exists, and vlrft did not write it; use another --json"])
    return path
