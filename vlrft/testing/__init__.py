"""Conformance suites for plugin authors: inherit one in a test file, say what to test, and run pytest.

    from vlrft.testing.environment import EnvironmentConformance

    class TestMyEnv(EnvironmentConformance):
        def make_env(self):
            return MyEnv(self.sample)

environment     an environment: start, step, close
reward          a reward function
task            a task pack: samples, gold answers, graders
objective       an objective: terms, gradients, micro-batches
estimator       an advantage estimator or one of its steps
rollout_engine  an engine that completes prompts
family          a model family: image tokens, positions, packing

The suites use plain asserts and need no plugin of pytest's. vlrft's own parts pass them (`tests/conformance/`).
`scripted_engine` answers prompts from a function; `work_meter` and `count_step` count the work of a training step,
`operator_meter` dispatched operators and host syncs, `pass_costs` FLOPs of attention and saved bytes;
`small_policies` and `process_ranks` make small policies and ranks, and `engine_steps` compares a sharded engine with
`single`.
"""

import pkgutil
import sys

if "pytest" in sys.modules:  # a failed assert shows its values, as in the author's own test file
    _modules = (f"{__name__}.{module.name}" for module in pkgutil.iter_modules(__path__))
    sys.modules["pytest"].register_assert_rewrite(*(m for m in _modules if m not in sys.modules))
