"""Messages in Qwen's own form, held to qwen-vl-utils, which reads them for Qwen's models."""

from __future__ import annotations

import base64
import io
import random
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from PIL import Image

from vlrft.data.picture_cells import PictureFinder
from vlrft.data.pictures import open_picture
from vlrft.data.qwen_pictures import load_qwen_messages
from vlrft.data.source import Folder
from vlrft.schema import IMAGE, DataError
from vlrft.testing.small_policies import noise_image
from vlrft.vision.boxes import resized_size
from vlrft.vision.processor import prepare_torchvision
from vlrft.vision.qwen_messages import read_image_part, read_messages

MISSING = prepare_torchvision().state == "absent"
needs_reference = pytest.mark.skipif(MISSING, reason="qwen_vl_utils imports torchvision")


def png(image: Image.Image) -> bytes:
    content = io.BytesIO()
    image.save(content, "PNG")
    return content.getvalue()


def ask(*images: Any) -> list[dict[str, Any]]:
    parts = [{"type": "image", **image} for image in images]
    return [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [*parts, {"type": "text", "text": "Which bird is this?"}]},
    ]


@needs_reference
def test_images_in_all_of_qwens_forms_are_those_that_qwen_vl_utils_makes(tmp_path: Path) -> None:
    from qwen_vl_utils import process_vision_info

    picture = noise_image(200, 150)
    file = tmp_path / "bird.png"
    file.write_bytes(png(picture))
    encoded = base64.b64encode(file.read_bytes()).decode()
    messages = ask(
        {"image": f"file://{file}", "max_pixels": 50 * 28 * 28},
        {"image": str(file), "resized_height": 280, "resized_width": 420},
        {"image": f"data:image;base64,{encoded}", "min_pixels": 100 * 28 * 28},
        {"image": f"data:image/png;base64,{encoded}", "min_pixels": 784, "max_pixels": 7840},
        {"image": picture, "resized_height": 100, "resized_width": 100},
        {"image_url": str(file), "max_pixels": 100_000},
    )
    expected, _ = process_vision_info(messages)
    read, images = load_qwen_messages(messages)
    assert [message.role for message in read] == ["system", "user"]
    assert read[1].content == (*[IMAGE] * 6, "Which bird is this?")
    assert [image.size for image in images] == [image.size for image in expected]
    assert [png(image) for image in images] == [png(image) for image in expected]


@needs_reference
def test_resizing_is_that_of_qwen_vl_utils_wherever_the_image_has_a_patch_on_each_side() -> None:
    from qwen_vl_utils import smart_resize

    draw = random.Random(0)
    for _ in range(5000):
        factor = draw.choice((28, 32))
        width = draw.randint(factor, 4000)
        height = draw.randint(max(factor, width // 150), min(4000, 150 * width))
        low = draw.choice((factor * factor, 4 * factor * factor, 3136, 200_000))
        high = low + draw.choice((150 * factor * factor, 401_408, 12_845_056))
        ours = resized_size(width, height, low, high, factor)
        theirs = smart_resize(height, width, factor, low, high)
        assert ours == (theirs[1], theirs[0]), (width, height, low, high, factor)


def test_an_image_without_a_size_is_left_to_the_policys_processor(tmp_path: Path) -> None:
    picture = noise_image(75, 90)
    _, (image,) = load_qwen_messages(ask({"image": picture}))
    assert image.size == picture.size


@needs_reference
def test_the_picture_of_a_row_is_resized_when_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "bird.png").write_bytes(png(noise_image(200, 150)))
    finder = PictureFinder(Folder(tmp_path), "train")
    part = {"type": "image", "image": "file:///elsewhere/bird.png", "max_pixels": 784 * 6}
    assert open_picture(finder.find(part, "train/0")).size == (56, 56)
    plain = {"type": "image", "image": "bird.png"}
    assert open_picture(finder.find(plain, "train/0")).size == (200, 150)


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ({}, "a part of type image without an image"),
        ({"image": "a.png", "max_pixels": "784"}, "max_pixels is '784'; expected a whole number"),
        ({"image": "a.png", "min_pixels": 10**12}, "min_pixels is 1000000000000; expected"),
        ({"image": "a.png", "resized_width": 28}, "resized_width without the other side"),
        ({"image": "a.png", "min_pixels": 9, "max_pixels": 4}, "min_pixels 9, more than max"),
        (
            {"image": "a.png", "resized_width": 28, "resized_height": 28, "max_pixels": 4},
            "resized_height and resized_width beside min_pixels or max_pixels",
        ),
    ],
)
def test_a_part_that_is_no_image_says_what_is_wrong(part: dict[str, Any], problem: str) -> None:
    with pytest.raises(DataError, match=rf"^train/3: {problem}"):
        read_image_part(part, "train/3")


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([], "expected a list of messages"),
        ([{"role": "human", "content": "a"}], "message 0: the role is 'human'; known: system"),
        ([{"role": "user", "content": 7}], "message 0: its content is int"),
        (
            [{"role": "user", "content": [{"type": "video", "video": "a.mp4"}]}],
            "message 0: a part of type 'video'; text and image are read; give a video's frames",
        ),
        ([{"role": "user", "content": [{"type": "image"}]}], "message 0: a part of type image wi"),
    ],
)
def test_messages_of_another_form_say_where(messages: Any, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        read_messages(messages)


def test_a_url_is_downloaded_only_where_it_is_asked_for() -> None:
    content = png(noise_image(60, 30))

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/bird.png" else 404)
            self.end_headers()
            if self.path == "/bird.png":
                self.wfile.write(content)

        def log_message(self, *args: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Server) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}"
            with pytest.raises(DataError, match=r"image 0: http://.* is a URL; it is downloaded"):
                load_qwen_messages(ask({"image": f"{url}/bird.png"}))
            _, (image,) = load_qwen_messages(ask({"image": f"{url}/bird.png"}), urls=True)
            assert png(image) == content
            with pytest.raises(DataError, match=r"/none.png cannot be read \(HTTP Error 404"):
                load_qwen_messages(ask({"image": f"{url}/none.png"}), urls=True)
        finally:
            server.shutdown()
            thread.join()
