"""Configs of published runs, against the numbers of the released recipes."""

from __future__ import annotations

from vlrft.config.load import load_config


def weights(name: str) -> dict[str, float]:
    return {k: r.weight for k, r in (load_config(name).task.rewards or {}).items()}


def test_gpg_rs1_is_the_recipe_of_its_repository() -> None:
    """open-rs/recipes/gpg.yaml: open-s1, cosine 2.0 and format 1.0, a cosine schedule with a floor of 0.1."""
    config = load_config("textmath_gpg_rs_released")
    assert weights("textmath_gpg_rs_released") == {
        "length.open_rs_cosine": 2.0,
        "format.open_rs": 1.0,
    }
    assert config.task.options["train"] == "open_s1"
    (stage,) = config.stages
    assert (stage.steps, stage.prompts_per_step, stage.rollout.group_size) == (100, 64, 6)
    update = stage.update
    assert (update.schedule, update.min_lr_ratio, update.warmup_steps) == ("cosine", 0.1, 10)


def test_cw_grpo_is_the_recipe_of_its_repository() -> None:
    """recipes/gaussian_1.5b.yaml: 300 steps, a tenth of them warm-up, a floor of 0.1."""
    for name in ("textmath_cw_grpo", "textmath_cw_grpo_released"):
        (stage,) = load_config(name).stages
        update = stage.update
        assert (stage.steps, update.warmup_steps, update.min_lr_ratio) == (300, 30, 0.1)
        assert (stage.prompts_per_step, stage.rollout.group_size) == (12, 12)


def test_r1v_counting_trains_with_its_training_reward_and_is_evaluated_with_its_evaluation() -> (
    None
):
    assert weights("counting_grpo_released") == {"count.r1v": 1.0, "format.r1": 1.0}
    published = load_config("counting_grpo_released").published
    assert published is not None
    assert published.scores == {"accuracy (official)": 82.5}
