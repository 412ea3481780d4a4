"""The vocabulary of vlrft: what a task, an environment, a rollout and a reward are made of. No torch.

sample     Message, Sample: a question with its gold answer
rollout    Prompt, Piece, Sequence, Rollout, Group: answers to it, as they are sampled and trained on
env        Observation, Step, Env: who answers an answer
task       Task, Reward, Record, Measure: what brings questions, pays for answers and makes figures of them
errors     VlrftError and its kinds
"""

from vlrft.schema.env import Env, Observation, Step
from vlrft.schema.errors import DataError, RewardError, VlrftError
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
)
from vlrft.schema.sample import IMAGE, Message, Sample, Slot
from vlrft.schema.task import Metric, Record, RecordCompleter, Resize, Reward, Score, Task

__all__ = [
    "ENVIRONMENT",
    "IMAGE",
    "DataError",
    "EndReason",
    "Env",
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
    "VlrftError",
]
