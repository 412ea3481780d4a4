"""Seeds of rollouts and of their turns."""

from __future__ import annotations

import hashlib


def seed_from(*parts: object) -> int:
    """A 63-bit seed that depends on every part and on nothing else."""
    digest = hashlib.sha256("\x1f".join(map(str, parts)).encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") >> 1
