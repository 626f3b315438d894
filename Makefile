# The chores of trikubelet. `make` alone lists them; each sets up what it needs.
#
#   PYTHON    the interpreter the virtual environment is made of (3.11 or newer)
#   SEEDS     how many seeds `make sim` runs        SEED   replay this one, with its trace
#   PYTEST    more words for pytest

PYTHON ?= python3
SEEDS ?= 1000
SEED ?=
PYTEST ?=

VENV := .venv
BIN := $(VENV)/bin
RUST := $(wildcard rust/relist/src/*.rs) rust/relist/Cargo.toml Cargo.toml Cargo.lock
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: help run test live can-live sim bench lint types pyz smoke clean

help:
	@echo "make run     run the agent standalone on its embedded runtime, with examples/manifests (Ctrl-C ends it)"
	@echo "make test    the tests that need nothing but this machine"
	@echo "make live    the tests on real container runtimes (Linux and root; installs containerd with apt)"
	@echo "make sim     whole simulated nodes: SEEDS=$(SEEDS) of them, or SEED=7 alone with its trace"
	@echo "make bench   the benchmarks, written to bench/results as JSON and as a table"
	@echo "make lint    ruff, mypy, import-linter, rustfmt, clippy, and generated files compared"
	@echo "make pyz     the single file, dist/trikubelet; make smoke builds and tries it"
	@echo "make clean   remove what the others made"

# ---- setting up ----------------------------------------------------------------------------------------------------

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "make: $(PYTHON) is older than 3.11; name a newer one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@command -v cargo >/dev/null \
	  || { echo "make: cargo is missing; the relist is compiled Rust (apt-get install cargo, or rustup.rs)" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
	  || { rm -rf $(VENV); echo "make: no virtual environment (Debian: apt-get install python3-venv)" >&2; exit 1; }

$(VENV)/.runtime: $(BIN)/python requirements/runtime.txt requirements/build.txt
	@echo "make: installing what the agent needs"
	@$(PIP) install --require-hashes -r requirements/runtime.txt
	@$(PIP) install --require-hashes -r requirements/build.txt
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements/dev.txt
	@echo "make: installing what the tests need"
	@$(PIP) install --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/.built: $(VENV)/.runtime pyproject.toml $(RUST)
	@echo "make: compiling the relist"
	@# pip, even an old one, and not "maturin develop", which installs the dependency groups without their hashes.
	@PATH="$(CURDIR)/$(BIN):$$PATH" MATURIN_PEP517_ARGS="--locked" \
	  $(BIN)/python -m pip install --no-deps --no-index --no-build-isolation --editable . >$(VENV)/build.log 2>&1 \
	  || { cat $(VENV)/build.log >&2; exit 1; }
	@touch $@

# ---- the chores ----------------------------------------------------------------------------------------------------

run: $(VENV)/.built
	$(BIN)/trikubelet --standalone --container-runtime-endpoint=embedded: --pod-manifest-path=examples/manifests

test: $(VENV)/.dev $(VENV)/.built
	$(BIN)/pytest $(PYTEST)

live: can-live $(VENV)/.dev $(VENV)/.built
	tests/live/install.sh
	$(BIN)/pytest tests/live $(PYTEST)

can-live:
	@test "$$(uname -s) $$(id -u)" = "Linux 0" \
	  || { echo "make: the live tests start container runtimes: they need Linux and root" >&2; exit 1; }

sim: $(VENV)/.dev $(VENV)/.built
	$(BIN)/python -m trikubelet.testing.sim $(if $(SEED),--seed $(SEED),--seeds $(SEEDS)) $(SIM)

bench: $(VENV)/.dev $(VENV)/.built
	$(BIN)/python bench/run.py

lint: $(VENV)/.dev $(VENV)/.built
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/stubtest trikubelet._relist
	$(BIN)/lint-imports --no-cache
	cargo fmt --all --check
	cargo clippy --locked --all-targets --quiet -- -D warnings
	$(BIN)/python packaging/generate_stubs.py --check
	$(BIN)/python packaging/generate_types.py --check
	$(BIN)/python packaging/generate_ownership.py --check

pyz: $(VENV)/.dev $(VENV)/.built
	PATH=$(CURDIR)/$(BIN):$$PATH packaging/build-pyz.sh

smoke: pyz
	$(BIN)/python packaging/smoke_test.py dist/trikubelet

clean:
	rm -rf $(VENV) target dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests bench packaging -name __pycache__ -prune -exec rm -rf {} +
	find src -name '*.so' -delete
