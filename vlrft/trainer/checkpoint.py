"""Atomic checkpoints: written to a draft, hashed, renamed, verified before use, pruned; at once, or in the background.

ROOT/step_N/                 a plain transformers model folder
ROOT/step_N/trainer/         state.safetensors, state.json: the rest of a run's state, no weight twice
ROOT/step_N/manifest.json    sha256 of every file, step, score
ROOT/last -> step_N
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from threading import Event

from vlrft.reporting.run_folder.names import LAST, STEP
from vlrft.reporting.run_folder.removal import remove_checkpoint
from vlrft.schema.errors import CheckpointError, StoredFileError
from vlrft.schema.file_hashes import MANIFEST, sha256_of
from vlrft.trainer.checkpoint_files import (
    TrainerState,
    damage_of,
    files_below,
    score_of,
    step_of,
    sync,
    sync_folder,
    writing,
)
from vlrft.trainer.tensor_writer import Background, TensorWriter, WriteCancelled, shapes_of


class Checkpoints:
    """The checkpoints of one run."""

    def __init__(
        self, root: Path, keep_last: int, keep_best: int, message: Callable[[str], None]
    ) -> None:
        self.root = root
        self.keep_last = keep_last
        self.keep_best = keep_best
        self.message = message
        self._pending: Background | None = None
        self._cancelled = Event()

    def save(
        self,
        step: int,
        content: Callable[[Path, TensorWriter], TrainerState],
        score: float | None,
        *,
        later: bool = False,
    ) -> Path:
        """Writes step_N; earlier checkpoints are unchanged until its final rename.

        `content` writes the model's folder, large tensors with the writer, and returns the state, whose tensors this takes
        over. `later`: they are copied into host memory, a thread writes them, and `wait` returns when the checkpoint is there;
        a write that is not finished is waited for first.

        Deletes the checkpoints of later steps, which exist where the run was resumed from an earlier step.
        `score` (higher is better; None or NaN: no score) decides which checkpoints `keep_best` keeps; of equal ones the first.
        Raises CheckpointError where the disk cannot be written.
        """
        self.wait()
        final, draft = self.root / f"step_{step}", self.root / f".writing_step_{step}"
        writer = TensorWriter(later=later, cancelled=self._cancelled)

        def complete() -> None:
            with writing(final):
                writer.finish()
                self._complete(draft, final, writer.digests, score)

        with writing(final):
            self._clear()
            trainer = draft / "trainer"
            trainer.mkdir(parents=True)
            state = content(draft, writer)
            (trainer / "state.json").write_text(json.dumps(state.values))
            writer(trainer / "state.safetensors", shapes_of(state.tensors), state.tensors.pop)
        if later:
            self._pending = Background(complete)
        else:
            complete()
        return final

    @property
    def ended(self) -> bool:
        """Whether no write is going on."""
        return self._pending is None or self._pending.ended

    def wait(self) -> None:
        """Returns when no write is going on. Raises the CheckpointError of one that failed."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.wait()

    def cancel(self) -> None:
        """Gives up a write that is going on; its draft stays until the next one."""
        self._cancelled.set()
        with suppress(WriteCancelled, CheckpointError):
            self.wait()
        self._cancelled.clear()

    def _complete(
        self, draft: Path, final: Path, digests: Mapping[Path, str], score: float | None
    ) -> None:
        """Makes a draft the checkpoint. `digests`: of files that were hashed while they were written."""
        step = step_of(final)
        files = {
            str(p.relative_to(draft)): digests.get(p) or sha256_of(p) for p in files_below(draft)
        }
        finite = score is not None and math.isfinite(score)
        manifest = {"step": step, "score": score if finite else None, "files": files}
        (draft / MANIFEST).write_text(json.dumps(manifest, indent=1))
        sync(draft)
        self._discard(final)
        draft.rename(final)
        self.point_last(final)
        self._prune(step)

    def latest(self, before: int | None = None) -> Path | None:
        """The newest intact checkpoint, None where there is no checkpoint; damaged ones are reported and skipped.

        `before`: of those of earlier steps than this. Raises CheckpointError where none of the checkpoints can be used.
        """
        steps = sorted(self._steps(), key=step_of, reverse=True)
        steps = [p for p in steps if before is None or step_of(p) < before]
        for path in steps:
            damage = damage_of(path)
            if damage is None:
                return path
            self.message(f"{path} is damaged ({damage}); trying the checkpoint before it")
        if steps or before is not None:
            which = "all checkpoints are damaged" if before is None else "no checkpoint can be used"
            raise CheckpointError(f"{self.root}: {which}; start again with --overwrite")
        return None

    def _steps(self) -> list[Path]:
        paths = self.root.glob("step_*")
        return [p for p in paths if STEP.fullmatch(p.name) and p.is_dir()]

    def _clear(self) -> None:
        """Deletes drafts that a killed process left."""
        for draft in self.root.glob(".writing_*"):
            if draft.is_symlink():
                draft.unlink()
            elif STEP.fullmatch(draft.name.removeprefix(".writing_")):
                shutil.rmtree(draft)

    def point_last(self, final: Path) -> None:
        """Makes the link `last` point to this checkpoint. Raises StoredFileError where something else has its name."""
        last = self.root / LAST
        if last.is_symlink() and os.readlink(last) == final.name:
            return
        if last.exists() and not last.is_symlink():
            raise StoredFileError(
                f"{last} is not the link that vlrft makes; move it to another place, or delete it"
            )
        (self.root / ".writing_last").unlink(missing_ok=True)
        link = self.root / ".writing_last"
        link.symlink_to(final.name)
        os.replace(link, last)
        sync_folder(self.root)

    def _prune(self, newest: int) -> None:
        """Deletes all checkpoints but the last `keep_last` up to `newest` and the best `keep_best` of those with a score. Those between
        two evaluations have the same score: the first of them is the nearest to the policy that was evaluated."""
        checkpoints = self._steps()
        steps = sorted((p for p in checkpoints if step_of(p) <= newest), key=step_of, reverse=True)
        scored = [(s, p) for p in steps if (s := score_of(p)) is not None]
        best = [p for _, p in sorted(scored, key=lambda pair: (-pair[0], step_of(pair[1])))]
        keep = {*steps[: self.keep_last], *best[: self.keep_best]}
        for path in checkpoints:
            if path not in keep:
                self._discard(path)

    def _discard(self, path: Path) -> None:
        """Deletes a checkpoint; files in it that were not written with it stay, in a folder `step_N.kept`."""
        if not os.path.lexists(path):
            return
        foreign = remove_checkpoint(path)
        if foreign:
            kept = next(
                p for k in count() if not (p := path.with_name(_kept_name(path, k))).exists()
            )
            path.rename(kept)
            self.message(f"{path} is deleted; files that no run writes stay in {kept}")


def _kept_name(path: Path, number: int) -> str:
    return f"{path.name}.kept{number or ''}"
