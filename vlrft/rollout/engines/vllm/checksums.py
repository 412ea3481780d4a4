"""Checksums of the tensors on a server, and how they differ after weights were sent again."""

from __future__ import annotations

from collections.abc import Mapping

from vlrft.rollout.engines.vllm.server import Server


async def ask_checksums(server: Server, seconds: float) -> dict[str, str]:
    """Tensor -> checksum; empty where the server gives none. Raises ServerError."""
    answer = await server.post("/weight_checker", seconds, {"action": "checksum"})
    sums = answer.get("checksums")
    return dict(sums) if isinstance(sums, dict) else {}


def describe_changes(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Which tensors changed when the same weights were sent again."""
    changed = sorted(name for name in after if after[name] != before.get(name))
    if changed:
        shown = ", ".join(changed[:5])
        return f"sent again, {len(changed)} of {len(after)} tensors changed on the server: {shown}"
    return (
        f"sent again, none of {len(after)} tensors changed on the server: what differs is not a weight that is sent, such as a "
        "copy of the head, the precision, or the handling of images"
    )
