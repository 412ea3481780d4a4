# ruff: noqa: B018, E402
# %% [markdown]
# # A first run in a notebook
#
# vlrft trains a vision-language model with rewards. This page trains a very small one, on a CPU, in about a minute: it
# counts handwritten digits. Everything here works the same with a model of the hub and a GPU.

# %%
import vlrft

# %% [markdown]
# ## Train
#
# `vlrft.train` takes the name of a config, a path, or its content. This one has two stages: a short supervised warm-up, and then
# GPG, which samples eight answers to each question and rewards the right ones. A callback collects the mean reward of each step.


# %%
class Rewards(vlrft.Callback):
    def __init__(self):
        self.steps, self.means = [], []

    def on_step(self, step, metrics):
        if "reward/mean" in metrics:  # demonstrations have no reward
            self.steps.append(step)
            self.means.append(metrics["reward/mean"])


config = {
    "task": {"name": "digits", "options": {"subtasks": ["count"], "easy_count": True}},
    "policy": {"build": {"family": "qwen2_vl", "init_scale": 4.0}},
    "rollout": {"group_size": 8, "max_tokens": 10},
    "algorithm": {"name": "gpg", "regularize": {"kl": 0.15}},
    "stages": [
        {
            "algorithm": "sft",
            "steps": 22,
            "prompts_per_step": 16,
            "update": {"lr": 2.0e-3, "schedule": "linear", "warmup_steps": 5},
        },
        {"steps": 40, "prompts_per_step": 8, "update": {"lr": 4.0e-4, "warmup_steps": 3}},
    ],
    "eval": {"limit": 100},
}
rewards = Rewards()
result = vlrft.train(config, out="runs/notebook", overwrite=True, callbacks=[rewards])

# %%
result

# %% [markdown]
# ## The training curve
#
# `result.history` has the metrics of each step, `result.evaluations` the scores with their intervals, and
# `result.report` is a page with all of it.

# %%
from IPython.display import SVG

width, height, top = 480, 160, max([*rewards.means, 0.01])
points = " ".join(
    f"{width * k / (len(rewards.means) - 1):.0f},{height - height * mean / top:.0f}"
    for k, mean in enumerate(rewards.means)
)
SVG(
    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-10 -20 {width + 20} {height + 40}" width="{width}">'
    f'<text y="-6" font-size="12">mean reward, steps {rewards.steps[0]} to {rewards.steps[-1]}; top {top:.2f}</text>'
    f'<path d="M0 0V{height}H{width}" stroke="gray" fill="none"/>'
    f'<polyline points="{points}" stroke="royalblue" stroke-width="2" fill="none"/></svg>'
)

# %%
for evaluation in result.evaluations:
    score = evaluation["scores"]["count"]
    print(f"after {evaluation['stage']:5} {score['correct']:3} of {score['n']} counts right")

# %% [markdown]
# ## Ask it one question
#
# `load_policy` takes a folder, an id of the hub, or the result of a run; `generate` takes a question and pictures.

# %%
policy = vlrft.load_policy(result)
digits = vlrft.find_task("digits")
sample = digits.load("test", digits.options(subtasks=("count",), easy_count=True))[2]
picture = sample.images[0]
picture.resize((168, 168))

# %%
question = "".join(part for part in sample.messages[-1].content if isinstance(part, str))
answer = vlrft.generate(policy, question, picture, max_tokens=10)
print(question, "\n->", answer, "\ngold answer:", sample.answer)

# %% [markdown]
# ## Evaluate
#
# `evaluate` is `vlrft eval`: here on the first hundred pictures of the test split. Each record has the question's id, the
# output, and its grade.

# %%
options = {"options.subtasks": ["count"], "options.easy_count": True, "rollout.max_tokens": 10}
evaluation = vlrft.evaluate(policy, "digits", limit=100, overrides=options, progress=False)
print(evaluation.scores["count"])
[(record.id, record.output, record.answer) for record in evaluation.records[:3]]
