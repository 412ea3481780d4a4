"""The policy's side of a turn: prompts, rendered once where equal, and the requests that they become."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vlrft.policy.chat import Chat
from vlrft.rollout.engines import Limits, Request, RolloutEngine, Sampling
from vlrft.rollout.episode import Episode
from vlrft.rollout.seeds import seed_from
from vlrft.schema import Observation, Piece, Prompt, PromptKey
from vlrft.schema.errors import NonFiniteError


class PromptRenderer:
    """Renders prompts of turns; an observation that several episodes of a sample share is rendered once."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        # with the observation, so that the ids of its images are not reused
        self._rendered: dict[tuple[str, int], tuple[Observation, Prompt]] = {}

    def render(self, episode: Episode) -> Prompt:
        """The prompt of the episode's next turn."""
        observation = episode.observation
        assert observation is not None
        if observation.follows:  # the context before it belongs to this episode alone
            return episode.prompt(self._chat)
        shown = (*observation.images, *observation.videos)
        content = observation.messages, tuple(map(id, shown))
        key = episode.sample.id, hash(content)
        if key not in self._rendered:
            self._rendered[key] = observation, episode.prompt(self._chat)
        return self._rendered[key][1]


def exceeds_limit(episode: Episode, prompt: Prompt, limits: Limits) -> bool:
    """Whether the episode ends before this turn. A first prompt that is too long, or has too many images, is refused by the
    engine instead."""
    pairs = (
        (len(prompt.ids), limits.max_prompt_tokens),
        (prompt.image_count, limits.max_images),
    )
    return episode.turns > 0 and any(most is not None and size > most for size, most in pairs)


def make_requests(
    episodes: Sequence[Episode], prompts: Sequence[Prompt]
) -> list[tuple[Request, list[int]]]:
    """Requests for one completion of each episode, with the indices of their episodes; equal prompts of a sample become
    one request."""
    indices: dict[tuple[str, PromptKey], list[int]] = {}
    for k, (episode, prompt) in enumerate(zip(episodes, prompts, strict=True)):
        indices.setdefault((episode.sample.id, prompt.key), []).append(k)
    return [
        (
            Request(
                id=sample,
                prompt=prompts[places[0]],
                seeds=tuple(seed_from(episodes[k].seed, episodes[k].turns) for k in places),
                grows=any(episodes[k].grows for k in places),
            ),
            places,
        )
        for (sample, _), places in indices.items()
    ]


def sample_completions(
    running: Sequence[Episode],
    prompts: Sequence[Prompt],
    engine: RolloutEngine,
    sampling: Sampling,
) -> list[Piece]:
    """One completion for each episode."""
    requests = make_requests(running, prompts)
    completions = engine.generate([request for request, _ in requests], sampling)
    by_episode: dict[int, Piece] = {}
    for (_, places), pieces in zip(requests, completions, strict=True):
        by_episode.update(zip(places, pieces, strict=True))
    in_order = [by_episode[k] for k in range(len(running))]
    require_finite([episode.sample.id for episode in running], in_order)
    return in_order


def require_finite(samples: Sequence[str], pieces: Sequence[Piece]) -> None:
    """Raises NonFiniteError where the policy gave a token of a completion a log-prob that is NaN or infinite."""
    broken = [
        sample
        for sample, piece in zip(samples, pieces, strict=True)
        if not math.isfinite(sum(piece.logprobs))
    ]
    if broken:
        raise NonFiniteError(
            f"sample {broken[0]}: log-probs of sampled tokens are not finite, in {len(broken)} of {len(pieces)} "
            "completions: the policy's weights are too large or not finite",
            samples=tuple(dict.fromkeys(broken)),
        )
