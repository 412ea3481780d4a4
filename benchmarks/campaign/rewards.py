"""Rewards and environments that misbehave: each ends the run with a line that names it, or is survived as configured."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from benchmarks.campaign.case import Finding, Kind, Plan, Result
from benchmarks.campaign.outcome import judge_end, name_result, shown_line
from benchmarks.campaign.process import MARK, Setting, left_processes, run
from benchmarks.campaign.runs import CONFIG

MISDEEDS = {
    "raise": "raise KeyError('no such thing')",
    "raise ansi": "raise ValueError('\\x1b[31mred\\x07 \\u202e' + completion)",
    "raise lines": "raise ValueError('one\\ntwo\\nvlrft: three')",
    "raise empty": "raise ValueError",
    "raise base": "raise BaseException('base')",
    "raise interrupt": "raise KeyboardInterrupt",
    "raise unpicklable": "raise type('Odd', (Exception,), {'__reduce__': lambda s: 1 / 0})('odd')",
    "raise bad str": "raise type('Odd', (Exception,), {'__str__': lambda s: 1 / 0})('odd')",
    "raise surrogate": "raise ValueError('\\ud800')",
    "raise stop": "raise StopIteration",
    "raise system": "raise SystemExit('done')",
    "exit": "import sys; sys.exit(3)",
    "exit zero": "import sys; sys.exit(0)",
    "_exit": "import os; os._exit(0)",
    "abort": "import os; os.abort()",
    "kill": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "recursion": "f = lambda: f(); f()",
    "memory": "x = [0] * 10**13",
    "huge": "return 10**400",
    "huge float": "return 1e308",
    "nan": "return float('nan')",
    "infinite": "return float('inf')",
    "text": "return '1.0'",
    "none": "return None",
    "list": "return [1.0]",
    "bool": "return True",
    "complex": "return 1j",
    "fraction": "import fractions; return fractions.Fraction(10**400, 3)",
    "decimal": "import decimal; return decimal.Decimal('NaN')",
    "tensor": "import torch; return torch.tensor([1.0, 2.0])",
    "nan tensor": "import torch; return torch.tensor(float('nan'))",
    "mapping": "return {'\\x1b[1m': 1.0, 3: 2.0}",
    "nan mapping": "return {'a': float('nan')}",
    "empty mapping": "return {}",
    "growing mapping": "import random; return {str(random.random()): 1.0}",
    "prints": "print('\\x1b[31mhello'); return 1.0",
    "warns": "import warnings; warnings.warn('\\x1b[31mhello'); return 1.0",
    "chdir": "import os; os.chdir('/'); return 1.0",
    "threads": "import threading, time; threading.Thread(target=time.sleep, args=(600,), daemon=True).start(); return 1.0",
    "fork": "import os\n    if os.fork() == 0: os._exit(0)\n    return 1.0",
    "close": "import os; [os.close(d) for d in range(3, 40)]; return 1.0",
    "close std": "import os; os.close(2); return 1.0",
    "mutates": "sample.tags['x'] = 'y'; sample.info['z'] = object(); return 1.0",
    "seeds": "import random, numpy, torch; random.seed(0); numpy.random.seed(0); torch.manual_seed(0); return 1.0",
    "grad": "import torch; torch.set_grad_enabled(False); return 1.0",
    "dtype": "import torch; torch.set_default_dtype(torch.float64); return 1.0",
    "generator": "return (x for x in (1.0,))",
    "coroutine": "async def f(): return 1.0\n    return f()",
    "sleeps": "import time; time.sleep(30); return 1.0",
    "stops": "import os, signal; os.kill(os.getpid(), signal.SIGALRM); return 1.0",
    "handlers": "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); return 1.0",
    "stdin": "return float(len(input()))",
    "negative": "return -1e9",
}  # fmt: skip
OWN_END = (
    "_exit",
    "abort",
    "kill",
    "stops",
)  # in process these end the trainer itself, which nobody can prevent


def draw(random: Random) -> Plan:
    workers = random.choice((0, 1))
    return {
        "misdeed": random.choice(sorted(MISDEEDS)),
        "workers": workers,
        "time_limit": 2.0 if workers else None,
        "on_error": random.choice(("raise", "zero")),
        "call": random.choice((0, 0, 3)),  # calls that go well before
    }


def carry_out(plan: Plan, folder: Path) -> Result:
    misdeed, workers = plan["misdeed"], plan["workers"]
    body = MISDEEDS[misdeed]
    (folder / "odd.py").write_text(
        "calls = [0]\n\ndef odd(completion, sample):\n    calls[0] += 1\n"
        f"    if calls[0] <= {plan['call']}:\n        return 1.0\n    {body}\n"
    )
    section: dict[str, Any] = {"weight": 1.0, "on_error": plan["on_error"]}
    if workers:
        section |= {"workers": 1, "time_limit": plan["time_limit"]}
    settings = ", ".join(f"{k}: {v}" for k, v in section.items())
    mark = folder.name
    ended = run(
        ["train", str(CONFIG), f"task.rewards={{./odd.py: {{{settings}}}}}", "--out", "run"],
        folder,
        setting=Setting(env={MARK: mark}),
    )
    findings = judge_end(ended)
    if not workers and misdeed in OWN_END:
        findings = [f for f in findings if "control character" in f.text]
    elif ended.code == 1 and "odd" not in shown_line(ended) and misdeed != "raise interrupt":
        text = f"the line does not name the reward: {shown_line(ended)}"
        findings.append(Finding(outcome="unclear", text=text))
    if misdeed == "prints":  # what a reward prints is its own
        findings = [f for f in findings if "control character on stdout" not in f.text]
    if left := left_processes(mark):
        findings.append(Finding(outcome="unclear", text=f"leaves {len(left)} processes"))
    label = f"{misdeed}, workers {workers}, {plan['on_error']}"
    return name_result(label, findings, shown_line(ended))


REWARDS = Kind(
    name="rewards",
    doc="rewards that raise, exit, hang, die, or return what is no score, in process and in workers",
    draw=draw,
    run=carry_out,
    share=1.0,
)
