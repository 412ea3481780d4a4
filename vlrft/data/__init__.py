"""Rows and images of task packs: from the hub, a folder, a zip, parquet, jsonl, json or csv, raw or prepared. No torch.

Source     where files and tables are            open_source("~/data/geo.zip"), a hub id
Row        one question as the pack understands it, its images still encoded
Defect     a row that cannot be used, and why
Dataset    a pack's `load`: reads rows, makes samples
Made       samples that a function makes, for a pack without rows
prepare    raw form -> a folder of validated rows, once
generate   the data of a task that makes its own
"""

from vlrft.data.dataset import Dataset, Samples
from vlrft.data.generate import generate
from vlrft.data.lazy_samples import Made
from vlrft.data.prepare import Prepared, prepare
from vlrft.data.prompt import asked, content, read_prompt
from vlrft.data.qa_rows import qa_rows, untagged
from vlrft.data.row import Defect, Picture, Row
from vlrft.data.source import Source, Within, open_source, picture, read
from vlrft.data.tables import parse_json
from vlrft.vision.images import open_image

__all__ = [
    "Dataset",
    "Defect",
    "Made",
    "Picture",
    "Prepared",
    "Row",
    "Samples",
    "Source",
    "Within",
    "asked",
    "content",
    "generate",
    "open_image",
    "open_source",
    "parse_json",
    "picture",
    "prepare",
    "qa_rows",
    "read",
    "read_prompt",
    "untagged",
]
