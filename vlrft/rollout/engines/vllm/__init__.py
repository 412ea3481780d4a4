"""Sampling with servers of vLLM, over HTTP: token ids and pixels in, token ids and log-probs out. vLLM is not imported.

kind           the engine as a config names it            settings    the keys under `rollout.engine`
engine         the engine: submit, load_weights, close    completion  one completion, over pauses and lost servers
server         one server: its routes and its state       pool        several: which one takes the next completion
supervisor     starts, watches and revives servers        command     the command that starts one
update         new weights on a server                    weights     the files with them
served_policy  what servers need to know of the policy    follower    servers as other ranks see them
wire           requests and answers                       loop        the thread that waits for all answers
version        which releases of vLLM are supported       checksums   the tensors on a server
"""

from __future__ import annotations

from vlrft.rollout.engines.vllm.kind import Vllm

KIND = Vllm
