"""Every error that vlrft raises on purpose.

Each inherits VlrftError and the standard exception that it refines, so that callers may catch either. The command line
prints its message as one line, without a traceback unless `--debug` is given, and exits with its `exit_code`.

    VlrftError
      × ConfigError        (ValueError)          a config, an option or an argument is wrong; exit code 2
        + FolderInUse                            another process writes the folder or the file
      × PluginError        (LookupError)         a task, reward or reference cannot be found or loaded; exit code 2
      × DataError          (ValueError)          a row, an image, a gold answer or a stored file cannot be used
        + MissingSplit                           the data do not have a split
        + StoredFileError                        a file that vlrft wrote has been changed; exit code 2
        + NoRowsError                            no row of the data can be used; exit code 2
        + OutputsError                           stored outputs have rows that cannot be read; exit code 2
      × RewardError        (ValueError)          a reward function raised or returned no finite number
      × EnvError           (RuntimeError)        an environment raised, hung or died
      × WorkerError        (RuntimeError)        a call in a worker process gave no result
        + WorkerTimeout    (TimeoutError)          it ran over its time limit and was killed
        + WorkerMemoryError (MemoryError)          its process used more memory than its limit and was killed
        + WorkerDied                               its process ended during the call
        + UnsendableError                          the call raised an exception that cannot be sent to the caller
      × AdvantageError     (ValueError)          an advantage estimator does not fit the step
      × ObjectiveError     (ValueError)          an objective is not defined for the step
      × ReplayError        (ValueError)          a rollout cannot be stored for replay
      × NonFiniteError     (FloatingPointError)  a log-prob, a loss or a gradient is NaN or infinite
      × DivergedError      (FloatingPointError)  weights that an update left NaN, infinite or too large to use
      × SelfCheckError     (RuntimeError)        the packed forward pass differs from the plain one, or from the sampler
      × RanksError         (RuntimeError)        the processes of a run cannot work together
      × ServerError        (RuntimeError)        a server of a rollout engine cannot be used
      × CheckpointError    (OSError)             a checkpoint cannot be written or read
      × TrainingStopped    (RuntimeError)        a run cannot continue
      × TrackerError       (ImportError)         a tracker's package is not installed; exit code 2
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from vlrft.schema.secrets import redact


class VlrftError(Exception):
    """Base class of the errors that vlrft raises on purpose. Its message contains no secrets: it may be stored."""

    exit_code: ClassVar[int] = 1
    """Exit code of the command: 1, it failed; 2, its arguments or its config are wrong."""

    def __init__(self, message: str = "", *details: object) -> None:
        super().__init__(redact(message), *details)


class ConfigError(VlrftError, ValueError):
    """All mistakes of a configuration, one line each: file, key, what is wrong, what is allowed."""

    exit_code = 2

    def __init__(self, mistakes: Sequence[str]) -> None:
        self.mistakes = [redact(mistake) for mistake in mistakes]
        super().__init__("\n".join(self.mistakes))

    def __reduce__(self) -> tuple[type[ConfigError], tuple[list[str]]]:
        """Pickles the list of mistakes, as errors are sent between ranks."""
        return type(self), (self.mistakes,)


class FolderInUse(ConfigError):
    """A folder or a file that another process is writing; names the process, its host and since when."""


class PluginError(VlrftError, LookupError):
    """A name or reference that cannot be found, cannot be loaded, or is of the wrong kind; states what was tried."""

    exit_code = 2


class DataError(VlrftError, ValueError):
    """A row, an image, a gold answer or a stored file that cannot be used; names the sample or the file."""

    def __init__(self, message: str = "", defects: Sequence[str] = ()) -> None:
        """`defects`: a line for each of several rows, where the message counts them."""
        super().__init__(message)
        self.defects = tuple(defects)


class MissingSplit(DataError):
    """A split that the data do not have, or that is not prepared; names what was looked for and what is there."""


class StoredFileError(DataError):
    """A file of a run or of an evaluation that is not as vlrft wrote it; names the file and the line, and says what to
    do."""

    exit_code = 2


class NoRowsError(DataError):
    """Data of which no row can be used: an empty split, or none of its rows fits; says what was found and what was looked
    for."""

    exit_code = 2


class OutputsError(DataError):
    """A file of stored outputs with rows that cannot be read; lists them, a line each."""

    exit_code = 2


class RewardError(VlrftError, ValueError):
    """A reward that raised, or returned something other than a finite number; names the sample and the reward."""


class EnvError(VlrftError, RuntimeError):
    """An environment that raised, hung or died; names the sample."""


class WorkerError(VlrftError, RuntimeError):
    """A call in a worker process that gave no result: an argument or a result cannot be sent, or the call cannot run."""


class WorkerTimeout(WorkerError, TimeoutError):
    """A call that ran over its time limit; its process was killed."""


class WorkerMemoryError(WorkerError, MemoryError):
    """A call during which its process used more memory than its limit; the process was killed."""


class UnsendableError(WorkerError):
    """An exception of a call that only its own process has, or that would end a process: its type and message."""


class WorkerDied(WorkerError):
    """A call during which its process ended."""


class AdvantageError(VlrftError, ValueError):
    """An advantage estimator that does not fit the step it is given; names the estimator."""


class ObjectiveError(VlrftError, ValueError):
    """A step for which an objective is not defined; names the objective."""


class ReplayError(VlrftError, ValueError):
    """A rollout that cannot be stored for replay."""


class NonFiniteError(VlrftError, FloatingPointError):
    """A log-prob at an action position, a loss or a gradient that is NaN or infinite."""

    def __init__(
        self, message: str, rows: tuple[int, ...] = (), samples: tuple[str, ...] = ()
    ) -> None:
        """`rows`: indices in the batch; `samples`: ids of the samples they belong to, where these are known."""
        super().__init__(message)
        self.rows = rows
        self.samples = samples


class DivergedError(VlrftError, FloatingPointError):
    """A policy that an update left unusable: its weights, or its log-probs on any prompt, are NaN or infinite."""


class SelfCheckError(VlrftError, RuntimeError):
    """The packed forward pass of a policy gives other log-probs than the plain one, or than the rollout engine reported."""


class RanksError(VlrftError, RuntimeError):
    """Processes of a run that cannot work together; states which and why."""


class ServerError(VlrftError, RuntimeError):
    """A server of a rollout engine that cannot be used: it does not start, is lost, or answers what it must not."""


class CheckpointError(VlrftError, OSError):
    """A checkpoint that cannot be written or read; names the path."""


class TrainingStopped(VlrftError, RuntimeError):
    """A run that cannot continue; states the checkpoint from which it can be resumed."""


class TrackerError(VlrftError, ImportError):
    """A tracker whose package is not installed; names the extra to install."""

    exit_code = 2
