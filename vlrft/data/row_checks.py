"""The checks of a row before it is stored: its texts, its pictures and its videos as training decodes them, and its gold
answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from vlrft.data.clips import open_clips
from vlrft.data.pictures import open_picture
from vlrft.data.prepared import row_json
from vlrft.data.row import Clip, Row, find_text_problem
from vlrft.schema import DataError
from vlrft.schema.errors import VlrftError
from vlrft.schema.short_message import short_message
from vlrft.vision.video.frames import FrameRule


@dataclass(frozen=True)
class ClipCheck:
    """Decodes videos as a run does by this rule, each once, and keeps nothing but what is wrong with them."""

    rule: FrameRule
    _found: dict[str, str] = field(default_factory=dict[str, str], init=False)

    def find_problem(self, clip: Clip) -> str:
        """`reason: detail`, or an empty string."""
        if clip.name not in self._found:
            self._found[clip.name] = self._decode(clip)
        return self._found[clip.name]

    def _decode(self, clip: Clip) -> str:
        try:
            open_clips((clip,), self.rule, "")
        except DataError as e:
            return f"video missing or unreadable: {e}"
        return ""


def find_problem(
    row: Row, ids: set[str], check_sample: Callable[[Row], str | None], clips: ClipCheck
) -> str:
    """`reason: detail` of the first problem, or an empty string. Whatever a row makes a check raise is its problem; only
    what is wrong with the command (exit code 2) is raised. `ids`: those of the rows before it. `check_sample`: returns the
    problem of the sample that is made of a row, or None."""
    if row.id in ids:
        return "id twice"
    try:
        if problem := find_text_problem(row):
            return problem
        if not row.question.strip():
            return "empty question"
        row_json(row, images=()).encode()
    except Exception as e:  # TypeError, UnicodeEncodeError, RecursionError
        return f"cannot be stored as JSON: {short_message(e)}"
    for picture in row.pictures:
        try:
            open_picture(picture)
        except DataError as e:
            return f"image missing or unreadable: {e}"
    for clip in row.videos:
        if problem := clips.find_problem(clip):
            return problem
    try:
        return check_sample(row) or ""
    except VlrftError as e:
        if e.exit_code == 2:
            raise
        problem = str(e)
    except Exception as e:
        problem = short_message(e)
    return f"gold answer unreadable: {problem}"
