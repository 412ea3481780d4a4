"""Decoding videos: the chosen frames of any container, and files that are refused in one line."""

from __future__ import annotations

import random
import subprocess
import sys
import tracemalloc
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from vlrft.schema import DataError, Frames
from vlrft.testing.small_videos import STEP, shades, write_video
from vlrft.vision.video import decode
from vlrft.vision.video.frames import FrameRule

pytest.importorskip("av")

SMALL = FrameRule(min_pixels=28 * 28)


def read_video(path: Path, rule: FrameRule = SMALL, name: str = "the video") -> Frames:
    with path.open("rb") as file:
        return decode.read_video(file, rule, name)


def shown(video: Frames) -> list[int]:
    """Which of `shades` each frame is."""
    return [round(picture.mean() / STEP) for picture in video.pictures]


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("clip.mp4", "libx264"),  # with frames that are stored in another order than they are shown
        ("clip.mov", "mpeg4"),
        ("clip.mkv", "mpeg4"),
        ("clip.webm", "libvpx"),
        ("clip.avi", "mpeg4"),
    ],
)
def test_the_chosen_frames_of_a_video_have_their_places_and_times(
    tmp_path: Path, name: str, codec: str
) -> None:
    path = write_video(tmp_path / name, shades(29), codec=codec)
    video = read_video(path)
    assert list(video.indices) == [0, 6, 11, 17, 22, 28] == shown(video)
    assert list(video.seconds) == [k / 8 for k in video.indices]
    assert (video.source_fps, video.source_seconds, video.size) == (8.0, 29 / 8, (28, 28))


def test_of_a_variable_rate_the_frames_on_screen_at_even_times_are_taken(tmp_path: Path) -> None:
    times = [0, 1, 2, 3, 16, 17, 18, 32]  # of eighths of a second: a picture lasts 13 of them
    video = read_video(write_video(tmp_path / "clip.mkv", shades(8), times=times))
    assert list(video.seconds) == pytest.approx([k * 4 / 7 for k in range(8)], abs=1e-3)
    assert list(video.indices) == [0, 3, 3, 3, 6, 6, 6, 7] == shown(video)
    assert video.source_fps == pytest.approx(7 / 4)


@pytest.mark.parametrize("rotation", [90, -90, 180])
def test_a_video_that_was_taken_sideways_is_upright(tmp_path: Path, rotation: int) -> None:
    pictures = np.zeros((4, 56, 84, 3), np.uint8)
    pictures[:, :28] = 255  # bright at the top as it is stored
    path = write_video(tmp_path / "clip.mp4", pictures, rotation=rotation)
    frame = read_video(path).pictures[0].mean(axis=2)
    bright = {90: frame[:, :20], -90: frame[:, -20:], 180: frame[-20:]}[rotation]
    assert frame.shape == ((56, 84) if rotation == 180 else (84, 56))
    assert bright.min() > 200 > 150 > frame.mean()


def test_a_4k_video_is_held_in_memory_at_the_size_at_which_it_is_seen(tmp_path: Path) -> None:
    path = write_video(tmp_path / "clip.mp4", shades(2, 3840, 2160), codec="mjpeg")
    tracemalloc.start()
    try:
        video = read_video(path, FrameRule(max_pixels=200 * 784))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert video.size == (504, 280)
    assert peak < 3.5 * 3840 * 2160 * 3  # one frame in RGB, and while it is converted


def test_a_video_is_measured_without_decoding_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode, "_decode", lambda *_: pytest.fail("it was decoded"))
    with write_video(tmp_path / "clip.mp4", shades(20)).open("rb") as file:
        line = decode.measure_video(file, "the video")
    assert (line.seconds, line.fps, len(line.ticks), line.even) == (2.5, 8.0, 20, True)
    assert line.size == (32, 32)


def cut(
    path: Path, *, skip: int = 0, earlier: int = 0, codec: str = "libx264", end: bytes = b""
) -> Path:
    """`shades(20)` with a key frame each ten, then as a cut without encoding leaves them: `skip` packets gone, the others
    `earlier` frames earlier, of which those before 0 are in the edit list of an MP4. `end`: a packet that is appended."""
    import av

    whole = path.with_name("whole.mp4")
    options = {"x264-params": "keyint=10:scenecut=0:bframes=2"}
    if codec == "mpeg4":
        options = {"g": "10", "sc_threshold": "1000000000"}
    with av.open(str(whole), "w") as out:
        stream: Any = out.add_stream(codec, rate=8, options=options)
        stream.width, stream.height, stream.pix_fmt = 32, 32, "yuv420p"
        for picture in shades(20):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
            out.mux(stream.encode(frame))
        out.mux(stream.encode())
    with av.open(str(whole)) as opened, av.open(str(path), "w") as out:
        stream = out.add_stream_from_template(opened.streams.video[0])
        packets: list[Any] = [p for p in opened.demux(video=0) if p.size]
        step = round(1 / (8 * packets[0].time_base))
        if end:
            packets.append(av.Packet(end))
            packets[-1].pts = packets[-1].dts = 20 * step
            packets[-1].time_base, packets[-1].duration = packets[0].time_base, step
        for packet in packets[skip:]:
            packet.stream = stream
            packet.pts -= earlier * step
            packet.dts -= earlier * step
            out.mux(packet)
    return path


@pytest.mark.parametrize("codec", ["libx264", "mpeg4"])
def test_frames_that_an_edit_list_cuts_away_have_no_place_and_no_time(
    tmp_path: Path, codec: str
) -> None:
    path = cut(tmp_path / "clip.mp4", earlier=5, codec=codec)
    video = read_video(path)
    assert list(video.indices) == [0, 5, 9, 14] == [k - 5 for k in shown(video)]
    assert list(video.seconds) == [k / 8 for k in video.indices]
    assert (video.source_fps, video.source_seconds) == (8.0, 15 / 8)
    with path.open("rb") as file:
        assert decode.measure_video(file, "the video").seconds == 15 / 8


@pytest.mark.parametrize(
    ("name", "codec", "seconds"),
    [
        ("clip.mp4", "libx264", "0.50"),
        ("clip.mkv", "libx264", "0.50"),
        ("clip.mkv", "mpeg4", "0.38"),
    ],
)
def test_a_video_that_begins_between_key_frames_is_refused(
    tmp_path: Path, name: str, codec: str, seconds: str
) -> None:
    path = cut(tmp_path / name, skip=7, codec=codec)
    said = f"its first {seconds} seconds cannot be decoded, it was cut between key frames; encode it again$"
    with pytest.raises(DataError, match=said):
        read_video(path)


def test_a_video_whose_last_frames_cannot_be_decoded_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = decode._frames
    monkeypatch.setattr(decode, "_frames", lambda *args: islice(frames(*args), 12))
    with pytest.raises(
        DataError, match=r"it cannot be decoded after 1.38 of 2.50 seconds; encode it again$"
    ):
        read_video(cut(tmp_path / "clip.mp4"))


def test_at_the_end_of_an_mpeg4_video_a_packet_may_say_as_before(tmp_path: Path) -> None:
    as_before = b"\0\0\1\xb6\x59\x3f"  # a picture of which nothing is coded
    video = read_video(cut(tmp_path / "clip.mp4", codec="mpeg4", end=as_before))
    assert (video.indices[-1], shown(video)[-1]) == (20, 19)


def test_sound_alone_is_no_video(tmp_path: Path) -> None:
    import av

    path = tmp_path / "sound.mkv"
    with av.open(str(path), "w") as out:
        stream: Any = out.add_stream("pcm_s16le", rate=8000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), layout="mono")
        frame.sample_rate = 8000
        out.mux(stream.encode(frame))
    with pytest.raises(DataError, match=r"it has no stream of pictures$"):
        read_video(path)


@pytest.mark.parametrize("name", ["clip.mp4", "fast.mp4", "clip.mkv", "clip.avi"])
@pytest.mark.parametrize("share", [0.3, 0.7, 0.98])
def test_a_truncated_video_is_refused(tmp_path: Path, name: str, share: float) -> None:
    options = {"movflags": "faststart"} if name == "fast.mp4" else {}
    path = write_video(tmp_path / name, shades(20), options=options)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(
        DataError, match=r"it is truncated, [\d,]+ of its [\d,]+ bytes are missing$"
    ):
        read_video(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is empty"),
        (b"\x89PNG\r\n\x1a\n", "not a MP4, MOV, MKV, WEBM or AVI video, it is PNG"),
        (b"GIF89a", "video, it is GIF"),
        (b"#EXTM3U\n/etc/passwd", "not a MP4, MOV, MKV, WEBM or AVI video"),
        (b"ffconcat version 1.0\nfile /etc/passwd", "or AVI video"),
        (b"\0\0\0\x18ftypavif" + bytes(12), "it is AVIF"),
        (b"\0\0\0\x18ftypisom" + bytes(12), r"it is damaged|no stream of pictures"),
        (b"\x1a\x45\xdf\xa3" + bytes(40), "it is damaged"),
        (b"RIFF\x24\0\0\0AVI " + bytes(32), "it is damaged|no stream of pictures"),
    ],
)
def test_what_is_no_video_is_refused_whatever_its_name(
    tmp_path: Path, content: bytes, said: str
) -> None:
    path = tmp_path / "clip.mp4"
    path.write_bytes(content)
    with pytest.raises(DataError, match=said) as refused:
        read_video(path, SMALL, name="video 7")
    assert str(refused.value).startswith("video 7 cannot be read: ")


def test_a_picture_named_as_a_video_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    Image.new("RGB", (32, 32)).save(path, "JPEG")
    with pytest.raises(DataError, match=r"^the video cannot be read: .* it is JPEG$"):
        read_video(path)


@pytest.mark.parametrize("name", ["clip.mp4", "clip.mkv", "clip.avi"])
@pytest.mark.parametrize(
    ("count", "said"), [(0, "no frames|no stream of pictures"), (1, "one frame")]
)
def test_a_video_of_less_than_two_frames_is_refused(
    tmp_path: Path, name: str, count: int, said: str
) -> None:
    path = write_video(tmp_path / name, shades(count))
    with pytest.raises(DataError, match=said):
        read_video(path)


@pytest.mark.parametrize("header", ["states it", "does not"])
def test_a_video_of_three_hours_is_refused_before_anything_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, header: str
) -> None:
    hours = [k * 8 * 900 for k in range(13)]  # a frame each quarter of an hour
    path = write_video(tmp_path / "clip.mkv", shades(13), times=hours)
    monkeypatch.setattr(decode, "_decode", lambda *_: pytest.fail("it was decoded"))
    if header == "does not":
        monkeypatch.setattr(decode, "_seconds", lambda *_: 0.0)
    with pytest.raises(DataError, match=r"it lasts 10,8\d\d seconds, more than 7,200; cut it$"):
        read_video(path)


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("MAX_VIDEO_FRAME_PIXELS", "its frames have 1,024 pixels, more than 1,000; scale it down"),
        ("MAX_VIDEO_PIXELS", "its 8 frames have 1,024 pixels each, together more than 1,000"),
        ("MAX_VIDEO_FRAMES", "it has more than 5 frames; cut it"),
    ],
)
@pytest.mark.parametrize("name", ["clip.mp4", "clip.mkv"])  # the second states no number of frames
def test_a_video_out_of_the_limits_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, limit: str, said: str
) -> None:
    monkeypatch.setattr(decode, limit, 5 if limit == "MAX_VIDEO_FRAMES" else 1000)
    with pytest.raises(DataError, match=said):
        read_video(write_video(tmp_path / name, shades(8)))


def test_damaged_files_give_frames_or_one_line(tmp_path: Path) -> None:
    draw = random.Random(0)
    outcomes = set()
    for name in ("clip.mp4", "clip.mkv", "clip.avi"):
        path = write_video(tmp_path / name, shades(8))
        content = path.read_bytes()
        for _ in range(40):
            damaged = bytearray(content)
            for _ in range(draw.randint(1, 6)):
                damaged[draw.randrange(4, len(damaged))] = draw.randrange(256)
            path.write_bytes(damaged)
            try:
                outcomes.add(len(read_video(path)) > 0)
            except DataError as refused:
                outcomes.add("\n" not in str(refused) and len(str(refused)) < 500)
    assert outcomes == {True}


def test_without_pyav_the_extra_is_named_and_only_when_a_video_is_decoded() -> None:
    program = (
        "import sys; sys.modules['av'] = None\n"
        "import io\n"
        "from vlrft.vision.video import decode, frames\n"
        "from vlrft.schema import DataError\n"
        "try: decode.read_video(io.BytesIO(), frames.FrameRule(), 'clip')\n"
        "except DataError as e: print(e)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "clip: videos need PyAV: pip install 'vlrft[video]'\n", done.stderr
