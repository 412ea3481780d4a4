"""The model of a pipeline against cases that are computed by hand."""

from __future__ import annotations

import pytest

from vlrft.testing.pipeline.plan import Episode, Pipeline, ServerTimes, StepWork, Turn, Workload
from vlrft.testing.pipeline.simulate import simulate


def completions(*tokens: int, sample: int = 0, prompt: int = 0) -> StepWork:
    return tuple(Episode(sample=sample, turns=(Turn(tokens=n, prompt=prompt),)) for n in tokens)


def test_rows_share_a_server_and_the_trainer_waits_for_the_longest() -> None:
    """Ten steps of 1.5 s with two rows, ten of 1 s with one; 5 s of training and 1 s of new weights."""
    pipeline = Pipeline(server=ServerTimes(token=1.0, row=0.5), train=5.0, push=1.0)
    history = simulate(pipeline, [completions(10, 20)] * 2)
    first, second = history.steps
    assert (first.begin, first.sampled, first.train, first.end) == (0, 25, 25, 31)
    assert (second.begin, second.sampled, second.train, second.end) == (31, 56, 56, 62)
    report = history.report()
    assert report.step_seconds == 31
    assert report.tokens_per_second == pytest.approx(60 / 62)
    assert report.trainer_idle == pytest.approx(50 / 62)
    assert report.server_idle == pytest.approx(12 / 62)
    assert (report.staleness, report.max_staleness) == (0, 0)


@pytest.mark.parametrize(
    ("times", "servers", "seconds"),
    [
        (ServerTimes(token=1.0), 1, 20.0),  # both at once, at no price
        (ServerTimes(token=1.0, row=1.0), 1, 30.0),  # ten steps of 2 s, then ten of 1 s
        (ServerTimes(token=1.0, row=1.0), 2, 20.0),  # one each
        (ServerTimes(token=1.0, row=1.0, rows=1), 1, 30.0),  # one after the other
        (ServerTimes(token=1.0, prefill=0.5), 1, 22.0),  # one prompt of four tokens for both
        (ServerTimes(token=1.0, prefill=0.5), 2, 22.0),  # one each
    ],
)
def test_the_time_of_two_completions(times: ServerTimes, servers: int, seconds: float) -> None:
    pipeline = Pipeline(server=times, servers=servers)
    (step,) = simulate(pipeline, [completions(10, 20, prompt=4)]).steps
    assert step.sampled == pytest.approx(seconds)


def test_sampling_ahead_hides_training_and_its_tokens_are_of_the_versions_that_were_out() -> None:
    """Completions of 10 s, updates of 4 s. Steps 1 and 2 are sampled together, step 3 from 14 s on: four of its tokens with
    the weights of step 1, six with those of step 2."""
    pipeline = Pipeline(server=ServerTimes(token=1.0), ahead=1, train=4.0)
    history = simulate(pipeline, [completions(10)] * 3)
    assert [(s.version, s.begin, s.sampled, s.train, s.end) for s in history.steps] == [
        (0, 0, 10, 10, 14),
        (0, 0, 10, 14, 18),
        (1, 14, 24, 24, 28),
    ]
    assert [s.tokens for s in history.steps] == [{0: 10}, {0: 10}, {1: 4, 2: 6}]
    report = history.report()
    assert report.staleness == pytest.approx(14 / 30)
    assert report.max_staleness == 1
    later = history.report(skip=1)
    assert later.step_seconds == 7
    assert later.trainer_idle == pytest.approx(6 / 14)
    assert later.server_idle == pytest.approx(4 / 14)
    in_turn = simulate(Pipeline(server=ServerTimes(token=1.0), train=4.0), [completions(10)] * 3)
    assert in_turn.steps[-1].end == 42


def test_new_weights_interrupt_a_server_and_what_it_has_is_prefilled_again() -> None:
    """Step 2, of 12 tokens, has 5 when the weights of step 1 come, from 5 to 7 s; its 2 + 5 tokens take 0.7 s again."""
    times = ServerTimes(token=1.0, prefill=0.1)
    pipeline = Pipeline(server=times, ahead=1, train=1.0, push=2.0)
    work = [completions(4), completions(12, sample=1, prompt=2)]
    first, second = simulate(pipeline, work).steps
    assert [first.sampled, first.end] == pytest.approx([4.2, 7.2])
    assert second.tokens == {0: pytest.approx(5.0), 1: pytest.approx(7.0)}
    assert second.sampled == pytest.approx(7.2 + 0.7 + 7.0)


@pytest.mark.parametrize(
    ("lock_step", "workers", "seconds"),
    [(True, None, 12.0), (False, None, 8.0), (True, 1, 14.0), (False, 1, 13.0)],
)
def test_episodes_wait_for_each_other_only_in_lock_step(
    lock_step: bool, workers: int | None, seconds: float
) -> None:
    """Turns of one token; the environments take 5 and 1 s, then 1 and 5 s."""
    slow_first = Episode(
        sample=0, turns=(Turn(tokens=1, environment=5.0), Turn(tokens=1, environment=1.0))
    )
    slow_last = Episode(
        sample=1, turns=(Turn(tokens=1, environment=1.0), Turn(tokens=1, environment=5.0))
    )
    pipeline = Pipeline(server=ServerTimes(token=1.0), lock_step=lock_step, env_workers=workers)
    (step,) = simulate(pipeline, [(slow_first, slow_last)]).steps
    assert step.sampled == seconds


def test_an_update_may_cost_by_its_tokens() -> None:
    pipeline = Pipeline(server=ServerTimes(token=1.0), train=1.0, train_token=0.5)
    (step,) = simulate(pipeline, [completions(4, 6)]).steps
    assert step.end - step.train == 6.0


def test_lengths_have_their_mean_a_tail_and_a_limit_and_depend_on_seed_and_step() -> None:
    even = Workload(samples=2, group=3, tokens=50, prompt=7).step(0, 1)
    assert {turn.tokens for episode in even for turn in episode.turns} == {50}
    assert [episode.sample for episode in even] == [2, 2, 2, 3, 3, 3]
    tailed = Workload(samples=2000, group=1, tokens=100, spread=1.0, max_tokens=1000)
    lengths = [episode.turns[0].tokens for episode in tailed.step(0, 1)]
    assert sum(lengths) / len(lengths) == pytest.approx(100, rel=0.1)
    assert max(lengths) == 1000
    assert tailed.step(0, 1) == tailed.step(0, 1)
    assert tailed.step(0, 1) != tailed.step(0, 2) != tailed.step(1, 2)


def test_more_servers_and_more_steps_ahead_are_never_slower() -> None:
    work = Workload(samples=4, group=4, tokens=40, spread=0.8)
    steps = [work.step(0, k) for k in range(8)]
    times = ServerTimes(token=0.02, row=0.002)
    seconds = [
        [
            simulate(Pipeline(server=times, servers=servers, ahead=ahead, train=1.0), steps)
            .steps[-1]
            .end
            for servers in (1, 2, 4)
        ]
        for ahead in (0, 1, 2)
    ]
    for row in seconds:
        assert row == sorted(row, reverse=True)
    for column in zip(*seconds, strict=True):
        assert list(column) == sorted(column, reverse=True)
