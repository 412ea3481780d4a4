"""Downloads of pictures, for data and calls that ask for them; nothing else of the data layer but the hub uses a network."""

from __future__ import annotations

from urllib.request import urlopen

from vlrft.data.tables import read_limited
from vlrft.schema import DataError
from vlrft.schema.short_message import first_line
from vlrft.vision.limits import MAX_BYTES

WEB = ("http://", "https://")
SECONDS = 30.0  # without an answer of a server


def download(url: str) -> bytes:
    """The content at a URL of `WEB`. Raises DataError for one that cannot be read, and above `MAX_BYTES` bytes."""
    try:
        with urlopen(url, timeout=SECONDS) as answer:
            return read_limited(answer, url[:200], MAX_BYTES)
    except DataError:
        raise
    except Exception as e:  # URLError, HTTPException, OSError, ValueError, …
        raise DataError(f"{url[:200]} cannot be read ({first_line(e)})") from e
