"""The least that a place of data offers: its files by relative name."""

from __future__ import annotations

from typing import BinaryIO, Protocol


class Files(Protocol):
    """Files by relative name, with `/` between folders."""

    @property
    def label(self) -> str:
        """The place's name in messages."""
        ...

    def names(self) -> tuple[str, ...]: ...

    def open(self, name: str) -> BinaryIO: ...
