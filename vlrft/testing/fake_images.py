"""The images that a fake vLLM keeps, as vlrft_vllm.image_store and vLLM's own cache do. Only the standard library is imported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vlrft.testing.fake_completions import Body

PATH, NAME = "/vlrft/images", "vlrft-image:"  # of packages/vlrft-vllm
Answer = tuple[int, Body]


@dataclass(frozen=True)
class Refusal:
    """The answer to a request that is not taken."""

    answer: Answer


class FakeImages:
    """Both stores. Without the layer, `layer=False`, no image can be sent on its own."""

    def __init__(self, *, layer: bool) -> None:
        self.layer = layer
        self.kept: dict[str, str] = {}  # by the layer
        self.cached: set[str] = set()  # hashes that vLLM has seen

    def describe(self) -> Answer:
        """The answer to a GET."""
        return (200, {"count": len(self.kept)}) if self.layer else (404, {"error": PATH})

    def put(self, image: Body, *, keeps: bool) -> Answer:
        """The answer to a POST."""
        if not self.layer:
            return 404, {"error": PATH}
        if keeps:
            self.kept[image["key"]] = image["data"]
        return 200, {"kept": keeps}

    def find(self, hashes: Sequence[str], sent: Sequence[str | None]) -> tuple[str, ...] | Refusal:
        """Each image's hash and content, for a request; or why it is refused."""
        named = [text.removeprefix(NAME) for text in sent if text and text.startswith(NAME)]
        if named and not self.layer:
            return Refusal((500, {"error": {"message": f"{NAME}{named[0]} is no base64"}}))
        if missing := [key for key in named if key not in self.kept]:
            return Refusal((409, {"missing": missing}))
        for key, text in zip(hashes, sent, strict=True):
            if text is None and key not in self.cached:
                return Refusal(
                    (500, {"error": {"message": f"the image {key} is not in the cache"}})
                )
        self.cached.update(hashes)
        whole = [self.kept.get((text or "").removeprefix(NAME), text) for text in sent]
        return tuple(f"{key} {text}" for key, text in zip(hashes, whole, strict=True))
