"""The limits that docs/howto/own_data.md states are those of the code."""

from __future__ import annotations

from tests.docs.pages import read_page
from vlrft.data.row import MAX_ID, MAX_QUESTION
from vlrft.data.tables import MAX_LINE
from vlrft.vision.limits import FORMATS, MAX_BYTES, MAX_FRAMES, MAX_PIXELS, MAX_RATIO


def test_the_page_states_the_limits_of_pictures_and_texts() -> None:
    page = " ".join(read_page("docs/howto/own_data.md").split())
    for words in (
        f"Pictures are {', '.join(FORMATS[:-1])} or {FORMATS[-1]};",
        f"at most {MAX_PIXELS // 1_000_000} megapixels, {MAX_BYTES // 1_000_000} MB, {MAX_FRAMES:,} frames",
        f"the longer one is at most {MAX_RATIO} times the shorter one",
        f"at most {MAX_ID:,} characters, a question {MAX_QUESTION:,}, a line of jsonl {MAX_LINE >> 20} MiB",
    ):
        assert words in page
