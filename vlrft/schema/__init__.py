"""The vocabulary of vlrft: the data types that tasks, environments, rollouts and rewards share. No torch.

sample     Message, Sample: a question with its gold answer
frames     Frames: a video as a sample holds it
rollout    Prompt, Piece, TrainingRow, Rollout, Group: answers to a sample, as they are sampled and trained on
env        Observation, Step, Env: an environment that the policy acts in, turn by turn
task       Task, Reward, Record, Metric: the source of samples, their rewards and graders, and evaluation metrics
errors     VlrftError and its kinds
"""

from vlrft.schema.env import Env, Observation, Step
from vlrft.schema.errors import DataError, RewardError, VlrftError
from vlrft.schema.frames import Frames
from vlrft.schema.rollout import (
    ENVIRONMENT,
    EndReason,
    Group,
    Piece,
    Pixels,
    Prompt,
    PromptKey,
    Rollout,
    TrainingRow,
    Turn,
    VideoText,
)
from vlrft.schema.sample import IMAGE, VIDEO, Example, Message, Sample, Slot
from vlrft.schema.task import (
    Detail,
    Metric,
    Record,
    RecordCompleter,
    Resize,
    Reward,
    Score,
    Task,
    Unreadable,
    best_score,
    explain_unreadable,
    no_grader,
)

__all__ = [
    "ENVIRONMENT",
    "IMAGE",
    "VIDEO",
    "DataError",
    "Detail",
    "EndReason",
    "Env",
    "Example",
    "Frames",
    "Group",
    "Message",
    "Metric",
    "Observation",
    "Piece",
    "Pixels",
    "Prompt",
    "PromptKey",
    "Record",
    "RecordCompleter",
    "Resize",
    "Reward",
    "RewardError",
    "Rollout",
    "Sample",
    "Score",
    "Slot",
    "Step",
    "Task",
    "TrainingRow",
    "Turn",
    "Unreadable",
    "VideoText",
    "VlrftError",
    "best_score",
    "explain_unreadable",
    "no_grader",
]
