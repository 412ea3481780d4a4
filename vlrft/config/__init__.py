"""The configuration of a run: frozen dataclasses, one a section, with a docstring below each key.

run        Config, the whole tree, and its sections: rollout, update, stages, eval, save, log, ranks
task       the pack, its rewards, its environment
policy     the model
strict     the decorator of a section
load       load_config: YAML and overrides -> Config
choice     things that a config chooses by name
renamed    old keys and metrics -> new ones
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
from vlrft.config.strict import Natural, Positive, UnitInterval, strict
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
    "StageConfig",
    "TaskConfig",
    "UnitInterval",
    "UpdateConfig",
    "strict",
]
