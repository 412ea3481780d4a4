"""The files of a run's folder: the one list of the names that runs write.

Everything else in the folder belongs to somebody else and is never removed: `removal` deletes by this list.
A writer that adds a file to the folder adds its name here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from vlrft.data.atomic import DRAFT
from vlrft.schema.file_hashes import MANIFEST, read_manifest

MARK = "vlrft-run.json"
LOCK = "vlrft-run.lock"
CONFIG = "config.yaml"
METRICS = "metrics.jsonl"
ROLLOUTS = "rollouts.jsonl"
EVALS = "evals.jsonl"
VALUES = "values.jsonl"
SUMMARY = "summary.json"
LEFT_OUT = "left_out.jsonl"
REPORT = "report.html"
PROFILE = "profile.md"
IMAGES = "images"
TENSORBOARD = "tensorboard"
CHECKPOINTS = "checkpoints"
LAST = "last"
LOGS: Mapping[str, Mapping[str, type]] = {
    METRICS: {"stage": str, "step": int},
    ROLLOUTS: {"stage": str, "step": int},
    EVALS: {"stage": str, "step": int, "split": str},
    VALUES: {"stage": str, "step": int, "split": str, "values": dict},
}
"""Logs with one JSON object a line, and keys that each of their objects has."""
STEP = re.compile(r"step_(\d+)")
"""The folder of a checkpoint."""
NAMES = (MARK, LOCK, CONFIG, *LOGS, SUMMARY, LEFT_OUT, REPORT, PROFILE)
FORMER_DRAFTS = tuple(f".{name}" for name in NAMES)  # of versions before DRAFT
FILES = re.compile(
    "|".join(
        (
            *map(re.escape, (*NAMES, *FORMER_DRAFTS)),
            r"profile_[^/]*\.json\.gz",
            r"crash(_rank\d+)?\.txt",
            r"server_\d+\.log",  # of the servers of a rollout engine
            rf"{IMAGES}/(\.\d+_)?[0-9a-f]{{16}}\.png",
            rf"{TENSORBOARD}/events\.out\.tfevents\.[^/]*",
            rf"{CHECKPOINTS}/(\.writing_)?{LAST}",
            DRAFT.pattern,
        )
    )
)
"""Paths of files relative to the run's folder. The files of a checkpoint are those that its manifest lists."""
FOLDERS = re.compile(rf"{IMAGES}|{TENSORBOARD}|{CHECKPOINTS}|{CHECKPOINTS}/{STEP.pattern}")
DRAFT_FOLDERS = re.compile(rf"{CHECKPOINTS}/\.writing_{STEP.pattern}")
"""Checkpoints that are being written: folders that hold nothing but the run's files."""
MODEL_FILES = re.compile(
    rf"{MANIFEST}|trainer/state\.(json|safetensors)|(config|generation_config)\.json"
    r"|model(-\d+-of-\d+)?\.safetensors|model\.safetensors\.index\.json"
    r"|(tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab)\.json|merges\.txt|tokenizer\.model"
    r"|chat_template\.(jinja|json)|((video_)?preprocessor|processor)_config\.json"
    r"|adapter/(README\.md|(adapter_config|merge)\.json|adapter_model\.safetensors)"
)
"""Files of a checkpoint whose manifest is lost, relative to it."""
INERT = re.compile(r"lost\+found|\.DS_Store|Thumbs\.db|\.nfs[0-9A-Fa-f]+|\.git(keep|ignore)")
"""Names that file systems and tools leave in any folder; they are neither counted nor removed."""


def default_folder(config: str | Path) -> Path:
    """The folder of a run that is given none: that of its config's name below `runs`."""
    return Path("runs", Path(config).stem.replace(":", "_"))


def is_checkpoint_file(name: str, listed: frozenset[str]) -> bool:
    """Whether a checkpoint's file, relative to the checkpoint, was written with it. `listed`: see `listed_files`."""
    return name in listed or MODEL_FILES.fullmatch(name) is not None


def listed_files(checkpoint: Path) -> frozenset[str]:
    """The files in a checkpoint's manifest; empty where the manifest cannot be read."""
    return frozenset(str(PurePosixPath(name)) for name in read_manifest(checkpoint) or {})
