"""Limits of a picture and of a video: the same when data are prepared, checked and trained on. No PIL, no torch."""

from __future__ import annotations

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
"""The formats that are opened. All others are refused: some start programs (EPS: Ghostscript), some have rare decoders."""
MAX_PIXELS = 100_000_000
MAX_BYTES = (
    4 * MAX_PIXELS
)  # of the encoded picture; as many as the largest one has without compression
MAX_RATIO = 200  # of the longer side to the shorter one; Qwen2-VL's image processor refuses more
MAX_FRAMES = 1000  # of an animation or a file of several pages, of which the first is used
MAX_SCANS = (
    100  # of a progressive JPEG; each is a pass over all pixels, and encoders write about ten
)
MAX_HEADER_READS = (
    10_000  # of a file's parts before its pixels; a usual header takes less than a hundred
)
MAX_READS = 1_000_000  # of a file's parts altogether

# Of a video
VIDEO_FORMATS = ("MP4", "MOV", "MKV", "WEBM", "AVI")
"""The containers that are opened. Some others are lists of further files and addresses, which a decoder would follow."""
MAX_VIDEO_SECONDS = 2 * 60 * 60
MAX_VIDEO_FRAMES = 1_000_000
MAX_VIDEO_FRAME_PIXELS = 4096 * 2304  # of a frame as it is stored: 4K
MAX_VIDEO_PIXELS = 250_000_000_000  # of all its frames, as all are decoded: two hours of 1280 x 720
