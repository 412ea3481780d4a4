"""Images and videos -> pixels as a model takes them: processed once, and kept while there is room or they are referenced."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary

from PIL.Image import Image as PilImage

from vlrft.distributed.phases import phase
from vlrft.policy.byte_cache import ByteCache
from vlrft.policy.families import TakesVideos, VisionFamily
from vlrft.schema import DataError, Frames, Pixels, Resize, VideoText
from vlrft.schema.errors import ConfigError
from vlrft.schema.short_message import first_line
from vlrft.vision.images import upright_rgb

VideoMeasure = Callable[[Frames], tuple[int, VideoText]]


@dataclass(frozen=True)
class BoundProcessor:
    """An image processor, and the hash of its settings."""

    processor: Any
    settings: bytes

    @staticmethod
    def of(processor: Any) -> BoundProcessor:
        return BoundProcessor(
            processor, hashlib.sha256(processor.to_json_string().encode()).digest()
        )


@contextmanager
def _refusing(frames: Frames, where: str) -> Iterator[None]:
    """Errors of a video processor, such as for a single frame or an absurd aspect ratio, say of which video."""
    try:
        yield
    except ValueError as e:
        width, height = frames.size
        raise DataError(
            f"{where} ({len(frames)} frames of {width} x {height} pixels): {e}"
        ) from None


class PixelInputs:
    """A family's processors of images and videos, with a cache of their output. Thread-safe.

    `video_processor`: loads it when the first video comes; None: there is none. `frame_bounds`: of the area of a video's
    frame, in pixels; None: those of the video processor. `max_prompt_pixels`: the area that all images of a prompt have together,
    of which each of n images has at most an n-th; None: each is bounded by the processor alone.
    """

    def __init__(
        self,
        vision: VisionFamily,
        processor: Any,
        *,
        max_prompt_pixels: int | None,
        cache_bytes: int,
        video_processor: Callable[[], Any] | None = None,
        frame_bounds: tuple[int | None, int | None] = (None, None),
    ) -> None:
        self.vision, self.max_prompt_pixels = vision, max_prompt_pixels
        self._whole = BoundProcessor.of(processor)
        self._bounded: dict[int, BoundProcessor] = {}
        self._load_video_processor, self._frame_bounds = video_processor, frame_bounds
        self._videos: BoundProcessor | None = None
        self._pixels = ByteCache[Pixels](cache_bytes)
        self._referenced: WeakValueDictionary[str, Pixels] = WeakValueDictionary()
        self._lock, self._video_lock = Lock(), Lock()
        if max_prompt_pixels is not None and self.resize(1) is None:
            raise ConfigError(
                [
                    f"policy.max_prompt_pixels={max_prompt_pixels}: this model's image processor has no bounds of pixels; leave it out"
                ]
            )

    def resize(self, count: int) -> Resize | None:
        """How each of `count` images of a prompt is resized; None for a processor that has a way of its own. Raises DataError
        where so many images do not fit into `max_prompt_pixels`."""
        whole = self.vision.resize(self._whole.processor)
        if whole is None or self.max_prompt_pixels is None:
            return whole
        share = min(whole.max_pixels, self.max_prompt_pixels // max(count, 1))
        if share < whole.min_pixels:
            raise DataError(
                f"{count} images share policy.max_prompt_pixels={self.max_prompt_pixels}, which leaves each {share} pixels, less "
                f"than the least of {whole.min_pixels}; raise it, or lower policy.min_pixels"
            )
        return replace(whole, max_pixels=share)

    def process(self, images: Sequence[PilImage], where: str = "") -> tuple[Pixels, ...]:
        """The model's inputs for the images of a prompt, or for those that an environment shows at once. An image that was
        used recently, or whose pixels are still referenced, is not processed again. Raises DataError, with `where` and the
        number of the image in front, for one that cannot be used."""
        if not images:
            return ()
        try:
            bound = self._bound(len(images))
        except DataError as e:
            raise DataError(f"{where}{e}") from None
        return tuple(self._one(image, bound, f"{where}image {i}") for i, image in enumerate(images))

    def _bound(self, count: int) -> BoundProcessor:
        """The processor for each of `count` images."""
        if self.max_prompt_pixels is None:
            return self._whole
        resize = self.resize(count)
        assert resize is not None
        area = resize.max_pixels
        with self._lock:
            if area not in self._bounded:
                processor = deepcopy(self._whole.processor)
                self.vision.set_pixel_bounds(processor, None, area)
                self._bounded[area] = BoundProcessor.of(processor)
            return self._bounded[area]

    @phase("images")
    def _one(self, image: PilImage, bound: BoundProcessor, where: str) -> Pixels:
        image = upright_rgb(image, where)
        content = hashlib.sha256(bound.settings)
        content.update(repr(image.size).encode())
        content.update(image.tobytes())
        make = partial(self._process_image, bound, image, where)
        return self._get_or_make(content.hexdigest(), make)

    def _process_image(
        self, bound: BoundProcessor, image: PilImage, where: str, key: str
    ) -> Pixels:
        try:
            return self.vision.process(bound.processor, image, key)
        except ValueError as e:  # such as an absurd aspect ratio
            raise DataError(f"{where} ({image.width} x {image.height} pixels): {e}") from None

    @property
    def video_processor(self) -> Any:
        """The video processor, loaded if need be; None where the family has none, or it cannot be loaded, as without torchvision.
        It is stored with every policy: without its file transformers makes one of another class, with the image's bounds."""
        try:
            return self._loaded_videos("")[1].processor
        except DataError:
            return None

    def process_videos(self, videos: Sequence[Frames], where: str = "") -> tuple[Pixels, ...]:
        """The model's inputs for videos, as `process` for images."""
        return tuple(self._one_video(video, f"{where}video {i}") for i, video in enumerate(videos))

    def video_measure(self) -> VideoMeasure:
        """The function that tells the tokens and the text of a video that `process_videos` makes, whose pictures it does not look
        at; it raises DataError for a video that cannot be used. Raises DataError where the policy takes none."""
        vision, bound = self._loaded_videos("a video")

        def measure(frames: Frames) -> tuple[int, VideoText]:
            with _refusing(frames, "a video"):
                return vision.measure_video(bound.processor, frames, self._frame_bounds)

        return measure

    @phase("images")
    def _one_video(self, frames: Frames, where: str) -> Pixels:
        vision, bound = self._loaded_videos(where)
        facts = (
            frames.pictures.shape,
            *frames.indices,
            *frames.seconds,
            frames.fps,
            frames.source_fps,
        )
        content = hashlib.sha256(bound.settings)
        content.update(repr((facts, self._frame_bounds)).encode())
        content.update(frames.pictures.tobytes())

        def make(key: str) -> Pixels:
            with _refusing(frames, where):
                return vision.process_video(bound.processor, frames, self._frame_bounds, key)

        return self._get_or_make(content.hexdigest(), make)

    def _loaded_videos(self, where: str) -> tuple[TakesVideos, BoundProcessor]:
        """The family that takes videos, and its processor. Raises DataError where there is none."""
        vision = self.vision
        if not isinstance(vision, TakesVideos) or self._load_video_processor is None:
            raise DataError(f"{where}: this policy takes no videos; give its frames as images")
        with self._video_lock:
            if self._videos is None:
                try:
                    self._videos = BoundProcessor.of(self._load_video_processor())
                except (ImportError, OSError, ValueError) as e:
                    raise DataError(
                        f"{where}: the model's video processor cannot be loaded ({first_line(e)}); it needs torchvision"
                    ) from None
            return vision, self._videos

    def _get_or_make(self, key: str, make: Callable[[str], Pixels]) -> Pixels:
        """The pixels of this key, made where they are not at hand."""
        with self._lock:
            cached = self._pixels.get(key) or self._referenced.get(key)
        if cached is not None:
            return cached
        pixels = make(key)
        with self._lock:
            self._referenced[key] = pixels
            self._pixels.put(key, pixels, pixels.values.nbytes)
        return pixels
