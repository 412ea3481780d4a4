"""Rows and images of task packs: from the hub, a folder, a zip, parquet, jsonl, json or csv, raw or prepared. No torch.

Source       files and tables at one place           open_source("~/data/geo.zip"), a hub id
Row          one question, its images and videos still encoded
Defect       a row that cannot be used, and why
Layout       a form in which a data set is published: name, test, reader; `Layouts`: those of a pack
Dataset      a pack's `load`: reads rows, makes samples
LazySamples  samples that a function makes, for a pack without rows
prepare      raw form -> a folder of validated rows
generate     the data of a task that generates its own
Synthetic    a pack's made-up rows in its published form, to try it without a download
"""

from vlrft.data.cells import Cells, number_rows
from vlrft.data.clips import ClipFinder
from vlrft.data.dataset import Dataset
from vlrft.data.generate import generate
from vlrft.data.gold_columns import strip_answer_tag
from vlrft.data.layouts import Layout, Layouts, describe_files, has_tables
from vlrft.data.lazy_samples import LazySamples
from vlrft.data.picture_cells import PictureFinder
from vlrft.data.pictures import parse_picture, read_file
from vlrft.data.prepare import PreparedSplit, prepare
from vlrft.data.prepared import read_manifest
from vlrft.data.prompt import fill_prompt, read_prompt, split_at_images, user_sample
from vlrft.data.published_files import (
    encode_picture,
    write_bytes,
    write_hub_table,
    write_lines,
)
from vlrft.data.qa_rows import read_qa_rows, row_name
from vlrft.data.qwen_pictures import load_qwen_messages
from vlrft.data.row import Clip, Defect, Picture, Row, read_row
from vlrft.data.row_samples import RowSamples
from vlrft.data.source import Source, Subfolder, notes_of, open_source
from vlrft.data.synthetic import Draw, Synthetic
from vlrft.data.tables import parse_json
from vlrft.vision.images import open_image

__all__ = [
    "Cells",
    "Clip",
    "ClipFinder",
    "Dataset",
    "Defect",
    "Draw",
    "Layout",
    "Layouts",
    "LazySamples",
    "Picture",
    "PictureFinder",
    "PreparedSplit",
    "Row",
    "RowSamples",
    "Source",
    "Subfolder",
    "Synthetic",
    "describe_files",
    "encode_picture",
    "fill_prompt",
    "generate",
    "has_tables",
    "load_qwen_messages",
    "notes_of",
    "number_rows",
    "open_image",
    "open_source",
    "parse_json",
    "parse_picture",
    "prepare",
    "read_file",
    "read_manifest",
    "read_prompt",
    "read_qa_rows",
    "read_row",
    "row_name",
    "split_at_images",
    "strip_answer_tag",
    "user_sample",
    "write_bytes",
    "write_hub_table",
    "write_lines",
]
