"""The contract of rollout engines: requests and sampling settings in, sampled pieces out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol, runtime_checkable

from torch import Tensor

from vlrft.config import RolloutConfig
from vlrft.distributed.ranks import ALONE, Ranks
from vlrft.memory.plan import Moments
from vlrft.memory.shapes import ModelShape
from vlrft.memory.workload import RolloutWork
from vlrft.policy.policy import Policy
from vlrft.schema import Piece, Prompt


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds on the work of an engine at one time, and so on its memory. No sampled token depends on `max_rows` or
    `max_cache_tokens`."""

    max_prompt_tokens: int | None = None
    """A longer prompt is refused; None: any length is accepted."""
    max_images: int | None = None
    """A prompt with more images is refused; None: any number is accepted."""
    max_rows: int = RolloutConfig.max_rows
    """Completions that are sampled at once."""
    max_cache_tokens: int = RolloutConfig.max_cache_tokens
    """Tokens whose keys and values are kept at once."""


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How tokens are sampled. `temperature` 0 takes the likeliest token; `top_k` 0 and `top_p` 1 are off."""

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    stop: tuple[str, ...] = ()  # a completion ends with the first of these; its text excludes it
    signals: tuple[str, ...] = ()  # what `Piece.signals` holds; names of `token_signals.SIGNALS`
    limits: Limits = Limits()

    @staticmethod
    def of(config: RolloutConfig) -> Sampling:
        """The settings of a config's rollout section."""
        return Sampling(
            max_tokens=config.max_tokens,
            temperature=config.temperature,
            top_p=config.top_p,
            top_k=config.top_k,
            stop=config.stop,
            limits=Limits(
                max_prompt_tokens=config.max_prompt_tokens,
                max_images=config.max_images,
                max_rows=config.max_rows,
                max_cache_tokens=config.max_cache_tokens,
            ),
        )


@dataclass(frozen=True, kw_only=True)
class Request:
    """A prompt, and one seed for each of its completions."""

    id: str  # the sample's, for messages
    prompt: Prompt
    seeds: tuple[int, ...]
    grows: bool = False
    """Whether the prompt of a later request with this id may begin with this prompt and one of its completions."""


@runtime_checkable
class RolloutEngine(Protocol):
    """Samples completions with the policy's current weights."""

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[tuple[Piece, ...]]:
        """One piece for each seed, for each request in order. A piece depends on its prompt, its seed and `sampling`,
        and on no other request.

        `Piece.ids` are exactly the sampled tokens, the end-of-turn token included; `Piece.logprobs` are those of the
        distribution that was sampled from (temperature, `top_p` and `top_k` applied). Raises DataError, naming the
        request, for a prompt that is longer than `sampling.limits` allow.
        """
        ...

    def finish(self) -> None:
        """Called after the last `generate` of a batch of episodes: where ranks sample together, it waits for all."""
        ...

    def load_weights(self, weights: Iterable[tuple[str, Tensor]], step: int) -> None:
        """Loads the weights after step `step` of the run.

        Called before the first `generate` (step 0, or the step that a run resumes from) and after every step. `weights`
        are all parameters by the names of the policy's model, LoRA merged in; they are computed while they are read, so
        an engine that shares the policy's module ignores them at no cost. An engine that reads one reads all, on every
        rank and also after an error of its own (sharded weights are gathered by all ranks together), and copies what it
        keeps before it reads the next. `weights.base()` and `weights.adapters()` read the parts.
        """
        ...


@runtime_checkable
class StreamingEngine(RolloutEngine, Protocol):
    """A rollout engine that samples while the caller does something else: it does not share the policy's module.

    `generate` submits all requests and waits. `load_weights` may be called while requests are under way: it interrupts
    them, loads the weights, and continues them with the tokens that they have; their futures stay valid. A piece's
    `policy_steps` then say which weights sampled each token.
    """

    def submit(self, request: Request, sampling: Sampling) -> list[Future[Piece]]:
        """One future for each of the request's seeds, in order; its piece equals that of `generate`. May be called from
        any thread.

        Raises DataError as `generate` does. A future raises the error that ended its completion.
        """
        ...


@runtime_checkable
class ClosableEngine(Protocol):
    """An engine that holds servers, threads or files. Optional."""

    def close(self) -> None:
        """Ends what the engine has started. Called once at the end of a run, however it ends; futures that are not done
        raise CancelledError."""
        ...


@runtime_checkable
class CheckedEngine(Protocol):
    """An engine with weights of its own: during a run its log-probs are compared with the trainer's. Optional."""

    check_every: int
    """After the first update, and after every so many."""
    max_gap: float | None
    """The largest mean difference with which the run goes on, in nats; None: what rounding in the policy's dtype explains."""

    def explain_gap(self) -> str:
        """The likely cause of a difference that is too large, in a few words, as far as the engine can find it. Called on rank 0."""
        ...


@dataclass(frozen=True, kw_only=True)
class EnginePlace:
    """Where an engine works: beside which ranks, and where it may write and report."""

    folder: Path | None = None  # of the run; None: none, such as in `vlrft.generate`
    ranks: Ranks = ALONE
    say: Callable[[str], object] = str  # takes a line for the run's log
    context: int = 0  # the most tokens of a prompt with its completion


@runtime_checkable
class RolloutEngineKind(Protocol):
    """Settings of a rollout engine, under `rollout.engine` in a config: a `strict` dataclass whose fields are the keys
    next to `name`."""

    def check(self, config: RolloutConfig) -> None:
        """Raises ConfigError for sampling settings or limits that the engine does not support. Called with the
        run's rollout section and with each stage's, before `build`."""
        ...

    def build(self, policy: Policy) -> RolloutEngine:
        """The engine of a run. It has the policy's weights after the first `load_weights`."""
        ...


@runtime_checkable
class PlacedEngineKind(Protocol):
    """A `RolloutEngineKind` whose engine needs to know its place. Optional: `build_at` is called instead of `build`."""

    def build_at(self, policy: Policy, place: EnginePlace) -> RolloutEngine:
        """The engine of a run, as `build` returns it. Called on every rank."""
        ...


@runtime_checkable
class StreamingEngineKind(Protocol):
    """A `RolloutEngineKind` whose engines are `StreamingEngine`. Optional: what needs streaming is refused with a kind
    without it, before a run."""

    streams: ClassVar[bool]


@runtime_checkable
class SignallingEngineKind(Protocol):
    """A `RolloutEngineKind` whose engines fill `Piece.signals`. Optional: an algorithm that reads signals is refused with
    a kind without it, before a run."""

    signals: ClassVar[frozenset[str]]


@runtime_checkable
class VideoEngineKind(Protocol):
    """A `RolloutEngineKind` that says whether its engines take prompts with videos. Optional: a kind without it takes them."""

    takes_videos: ClassVar[bool]


@runtime_checkable
class ProbedEngineKind(Protocol):
    """A `RolloutEngineKind` with programs outside of this process, which `vlrft doctor` asks for. Optional."""

    def probe(self) -> list[str]:
        """A line about each. Raises ConfigError for one that is missing or that a run would refuse."""
        ...


@runtime_checkable
class RolloutMemoryModel(Protocol):
    """A `RolloutEngineKind` that `vlrft doctor` can plan with. Optional: without it a plan leaves sampling out."""

    def rollout_memory(self, model: ModelShape, work: RolloutWork) -> Moments:
        """Bytes by part at each moment of sampling, in addition to the rest of the run."""
        ...
