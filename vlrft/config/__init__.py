"""The configuration tree: one frozen typed dataclass a section, defaults that a paper or a run supports.

strict    how a section is written
task      a pack, its rewards, its environment
policy    the model
run       the tree itself: rollouts, updates, stages, evaluations, …

`loading.load_config` reads one from YAML.
"""

from vlrft.config.policy import BuildConfig, LoraConfig, PolicyConfig
from vlrft.config.run import (
    Config,
    EvalConfig,
    LogConfig,
    Published,
    RanksConfig,
    RolloutConfig,
    SaveConfig,
    StageConfig,
    UpdateConfig,
)
from vlrft.config.strict import Natural, Positive, Share, strict
from vlrft.config.task import EnvConfig, RewardConfig, TaskConfig

__all__ = [
    "BuildConfig",
    "Config",
    "EnvConfig",
    "EvalConfig",
    "LogConfig",
    "LoraConfig",
    "Natural",
    "PolicyConfig",
    "Positive",
    "Published",
    "RanksConfig",
    "RewardConfig",
    "RolloutConfig",
    "SaveConfig",
    "Share",
    "StageConfig",
    "TaskConfig",
    "UpdateConfig",
    "strict",
]
