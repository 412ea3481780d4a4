"""Reinforcement fine-tuning of vision-language models.

    result = vlrft.train("quickstart", overrides={"seed": 1})
    policy = vlrft.load_policy(result)
    answer = vlrft.generate(policy, "Which digit is this?", "seven.png")

The names in `__all__` are the stable interface of the library; docs/reference/api.md describes them, and docs/howto/python.md
shows how to use them. Each is imported
when it is first used, so that `import vlrft` loads neither torch nor any other large package.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vlrft.advantages import Estimator, EstimatorInput, find_estimator
    from vlrft.algorithms import Algorithm, PolicyLoss, find_algorithm, policy_loss
    from vlrft.config import Config
    from vlrft.config.load import load_config
    from vlrft.evaluation.evaluate import Evaluation, MetricValue
    from vlrft.objectives import LossBatch, Needs, Objective, Terms
    from vlrft.plugins.find import find_reward, find_task
    from vlrft.reporting.run_result import RunResult
    from vlrft.schema import (
        IMAGE,
        Env,
        Group,
        Message,
        Metric,
        Observation,
        Piece,
        Prompt,
        Record,
        Reward,
        Rollout,
        Sample,
        Score,
        Step,
        Task,
        TrainingRow,
    )
    from vlrft.schema.errors import ConfigError, DataError, PluginError, RewardError, VlrftError
    from vlrft.trainer.api.evaluate import evaluate
    from vlrft.trainer.api.generate import generate, load_policy
    from vlrft.trainer.api.score import score
    from vlrft.trainer.api.train import train
    from vlrft.trainer.callbacks import Callback, StopTraining

    __version__: str

__all__ = [
    "IMAGE",
    "Algorithm",
    "Callback",
    "Config",
    "ConfigError",
    "DataError",
    "Env",
    "Estimator",
    "EstimatorInput",
    "Evaluation",
    "Group",
    "LossBatch",
    "Message",
    "Metric",
    "MetricValue",
    "Needs",
    "Objective",
    "Observation",
    "Piece",
    "PluginError",
    "PolicyLoss",
    "Prompt",
    "Record",
    "Reward",
    "RewardError",
    "Rollout",
    "RunResult",
    "Sample",
    "Score",
    "Step",
    "StopTraining",
    "Task",
    "Terms",
    "TrainingRow",
    "VlrftError",
    "evaluate",
    "find_algorithm",
    "find_estimator",
    "find_reward",
    "find_task",
    "generate",
    "load_config",
    "load_policy",
    "policy_loss",
    "score",
    "train",
]

_MODULES = {  # module -> the public names that it defines; equal to the imports above, which tests/test_public.py checks
    "vlrft.advantages": "Estimator EstimatorInput find_estimator",
    "vlrft.algorithms": "Algorithm PolicyLoss find_algorithm policy_loss",
    "vlrft.config": "Config",
    "vlrft.config.load": "load_config",
    "vlrft.objectives": "LossBatch Needs Objective Terms",
    "vlrft.plugins.find": "find_reward find_task",
    "vlrft.schema": "IMAGE Env Group Message Metric Observation Piece Prompt Record Reward Rollout Sample Score "
    "Step Task TrainingRow",
    "vlrft.schema.errors": "ConfigError DataError PluginError RewardError VlrftError",
    "vlrft.trainer.api.evaluate": "evaluate",
    "vlrft.trainer.api.generate": "generate load_policy",
    "vlrft.trainer.api.score": "score",
    "vlrft.trainer.api.train": "train",
    "vlrft.evaluation.evaluate": "Evaluation MetricValue",
    "vlrft.reporting.run_result": "RunResult",
    "vlrft.trainer.callbacks": "Callback StopTraining",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

# A wheel has rewards/, tasks/ and configs/ inside this package; a checkout has them next to it.
_here = Path(__file__).resolve().parent
if not (_here / "rewards" / "__init__.py").is_file():
    __path__.append(str(_here.parent))


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used."""
    if name == "__version__":
        return importlib.import_module("vlrft.config.shipped").package_version()
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'vlrft' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, "__version__"])
