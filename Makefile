# The chores of trikubelet. `make` alone lists them; each sets up what it needs.
#
#   PYTHON    the interpreter the virtual environment is made of (3.11 or newer)
#   SEEDS     how many seeds `make sim` runs        SEED   replay this one, with its trace
#   SECONDS   of processor time for the mutator of `make fuzz`      EXAMPLES   random cases and histories after it
#   CONVERSATIONS   damaged ones that it has with a node's API      FUZZ   more words for those (bench/http_fuzz.py)
#   NIGHTLY   more words for packaging/nightly.py: NIGHTLY="--only lint,order", NIGHTLY=--list
#   WORKERS   how many files of live tests run side by side
#   ARCHITECTURES   for which `make wheels` and `make packages` build: x86_64, aarch64 (default: this machine's)
#   REPORTS   the release of Kubernetes that an agent of `make packages` reports (default: the one it follows)
#   FLAGS     more of them for the agent of `make run`: FLAGS=--healthz-port=0 where a kubelet has the port
#   WHEEL     a prebuilt wheel of this very checkout, whose compiled module `make run` takes where there is no cargo
#   STALLS    more words for packaging/stalls.py in `make test-stalled` (--seed=7, --still=1)
#   PROCESSES   among which `make test` shares the tests out: some of them wait rather than work, so more than processors
#   VERSION   of Kubernetes, whose node suite `make node-conformance` runs      FOCUS   only specs whose name matches
#   SERIAL    run the specs that must run alone: SERIAL=1
#   KUBELET   what `make node-conformance` and `make vm-test` test: agent, or upstream for the baseline
#   KEY       the path of the private key that signs `make release`
#   PYTEST    more words for pytest (-n 0: in one process)      GRID   which cells `make bench-relist` measures: full, goals

PYTHON ?= python3
SEEDS ?= 1000
SEED ?=
EXAMPLES ?= 1000000
CONVERSATIONS ?= 100000
FLAGS ?=
PYTEST ?=
WHEEL ?=
WORKERS ?= 2
GRID ?= full
FUZZ ?=
PROCESSES ?= $(shell expr $$(nproc) \* 3 / 2)
NIGHTLY ?=
VERSION ?= 1.37
FOCUS ?=
SERIAL ?=
KUBELET ?= agent

# Whoever wants no compiled modules beside sources would wait for it here: pytest's own rewriting of five hundred files,
# and each of the hundreds of agents that tests start, would be compiled anew every time.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
RUST := $(wildcard rust/relist/src/*.rs) rust/relist/Cargo.toml Cargo.toml Cargo.lock
# Nothing that the tests start outlives them, whatever becomes of them. (exec: no shell stands between it and make.)
ATTENDED := exec $(BIN)/python packaging/attended.py
# What is no process is swept, too. Before a run there may be something, of one that was killed; at the end of one that
# held there must not: then it has not held. (That of one that failed stays as it is, and so it may be the same words.)
SWEEP := env PYTHONPATH=tests $(BIN)/python -m live.kit sweep
SWEPT := --finally="$(SWEEP) --expect-nothing"
LINTS := lint-tests-types lint-types lint-rust lint-style lint-generated lint-pages
WITH_CARGO := $(BIN)/python packaging/usable_cargo.py
CARGO := $(WITH_CARGO) cargo
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: help run test test-otel test-stalled live live-core vm-test nightly linux-root can-live record surface conformance node-conformance sim bench bench-relist bench-cluster fuzz lint types pyz smoke
.PHONY: $(LINTS) wheels packages pins tour docs release clean

help:
	@echo "make run     start here: runs the agent in this terminal with the pods of examples/manifests; Ctrl-C ends both."
	@echo "             The first time takes a minute; without cargo the agent runs in plain Python, slower."
	@echo "             FLAGS=--healthz-port=0 next to a kubelet"
	@echo "make test    the tests that need nothing but this machine and Rust"
	@echo "make lint    ruff, mypy, import-linter, rustfmt, clippy, and generated files compared"
	@echo "make clean   remove what the others made"
	@echo
	@echo "make test-otel  those of traces, with the extra they need beside the rest"
	@echo "make test-stalled  the tests on a machine that stands still now and then (Linux and root)"
	@echo "make live-core  some of them, on the distribution's containerd alone; builds nothing (Linux and root)"
	@echo "make live    the tests on real container runtimes and a real control plane (Linux and root; installs containerd"
	@echo "             with apt, builds Kubernetes with Go)"
	@echo "make vm-test  the tests on virtual machines: Debian with systemd and cgroup v2, reboots, power cuts; KUBELET=upstream"
	@echo "             (Linux and root; installs QEMU and Debian into ~/.cache/trikubelet)"
	@echo "make nightly  all of that with fresh seeds, in an order nobody has chosen, and fuzzing, hours long; the summary is"
	@echo "             build/nightly.txt and build/nightly.json; NIGHTLY=--list says what, NIGHTLY='--only lint,order' runs some"
	@echo "make record  tests/recorded anew: what a real API server has for fields and says of the pods of tests/corpus"
	@echo "make surface  tests/recorded/surface anew: what pods show to a cluster and to the runtime on upstream's kubelet"
	@echo "make conformance  upstream's own conformance tests, a quarter of an hour, and docs/conformance.md (needs what live"
	@echo "             does, curl and bash)"
	@echo "make node-conformance  upstream's own node suite, 40 minutes, and docs/conformance.md: VERSION=1.36, FOCUS=pattern,"
	@echo "             SERIAL=1, KUBELET=upstream (Linux and root; builds the suite with Go and Debian's packages)"
	@echo "make sim     whole simulated nodes: SEEDS=$(SEEDS) of them, or SEED=7 alone with its trace"
	@echo "make bench   the benchmarks, written to bench/results as JSON and as a table"
	@echo "make bench-relist  the relist beside upstream's and others, 45 minutes, and docs/benchmarks.md made of it"
	@echo "make bench-cluster  a node of a cluster beside upstream's kubelet, 10 minutes, and docs/benchmarks-cluster.md"
	@echo "make fuzz    damaged lists for SECONDS=3600 of processor time, EXAMPLES=$(EXAMPLES) random cases, and then"
	@echo "             CONVERSATIONS=$(CONVERSATIONS) damaged ones with the API of a node"
	@echo "make pyz     the single file, dist/trikubelet; make smoke builds and tries it"
	@echo "make wheels  for pip, into dist/release; make packages: all that operators are given, deb and rpm (with Go, for"
	@echo "             nfpm), single file, wheels, what is in them, checksums; ARCHITECTURES='x86_64 aarch64' for both"
	@echo "make docs    the documentation as a site, build/site/index.html"
	@echo "make release  all of make packages, signed, verified and tagged: KEY=path (RELEASING.md)"
	@echo "make tour    docs/tour.svg, the picture of the README, from a run of the agent"
	@echo "make pins    write requirements/ anew from pyproject.toml (with uv, on the PATH)"

# ---- setting up ----------------------------------------------------------------------------------------------------

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "make: $(PYTHON) is older than 3.11; name a newer one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "make: making the virtual environment $(VENV)"
	@$(PYTHON) -m venv $(VENV) \
	  || { rm -rf $(VENV); echo "make: no virtual environment (Debian: apt-get install python3-venv)" >&2; exit 1; }

$(VENV)/.runtime: $(BIN)/python requirements/runtime.txt
	@echo "make: installing what the agent needs"
	@$(PIP) install --require-hashes -r requirements/runtime.txt
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements/dev.txt
	@echo "make: installing what the tests need"
	@$(PIP) install --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/.bench: $(VENV)/.runtime requirements/bench.txt
	@echo "make: installing what draws the benchmarks"
	@$(PIP) install --require-hashes -r requirements/bench.txt
	@touch $@

$(VENV)/.release: $(VENV)/.runtime requirements/release.txt
	@echo "make: installing what builds the single file"
	@$(PIP) install --require-hashes -r requirements/release.txt
	@touch $@

$(VENV)/.docs: $(VENV)/.runtime requirements/docs.txt
	@echo "make: installing what builds the documentation site"
	@$(PIP) install --require-hashes -r requirements/docs.txt
	@touch $@

$(VENV)/.otel: $(VENV)/.runtime requirements/otel.txt
	@echo "make: installing the extra for traces beside the rest"
	@rm -rf $(VENV)/otel
	@$(PIP) install --require-hashes --target $(VENV)/otel -r requirements/otel.txt
	@touch $@

# It is compiled here, or fails: what the tests run on is never a wheel from elsewhere, nor the plain-Python twins.
$(VENV)/.built: $(VENV)/.runtime requirements/build.txt pyproject.toml $(RUST)
	@$(BIN)/python packaging/build_agent.py
	@touch $@

# ---- the chores ----------------------------------------------------------------------------------------------------

# For a first look it does without a compiler. What is built is used as it is.
run: $(BIN)/python
	@WHEEL="$(WHEEL)" $(BIN)/python packaging/build_agent.py --to-try
	$(BIN)/trikubelet --standalone --container-runtime-endpoint=embedded: --pod-manifest-path=examples/manifests$(if $(FLAGS), $(FLAGS))

test: $(VENV)/.built $(VENV)/.dev
	$(ATTENDED) $(BIN)/pytest -n $(PROCESSES) --dist worksteal $(PYTEST)

test-otel: $(VENV)/.built $(VENV)/.dev $(VENV)/.otel
	$(ATTENDED) env PYTHONPATH=$(VENV)/otel $(BIN)/pytest tests/otel $(PYTEST)

# What holds beside busy loops may fail where the whole machine stands still now and then.
test-stalled: linux-root $(VENV)/.built $(VENV)/.dev
	$(ATTENDED) $(BIN)/python packaging/stalls.py $(STALLS) $(BIN)/pytest -n $(PROCESSES) --dist worksteal $(PYTEST)

live-core: linux-root $(VENV)/.built $(VENV)/.dev
	$(ATTENDED) tests/live/install.sh --core
	$(ATTENDED) $(SWEEP)
	$(ATTENDED) $(SWEPT) $(BIN)/pytest tests/live -m core -k containerd1 $(PYTEST)

live: can-live packages $(VENV)/.built $(VENV)/.dev
	$(ATTENDED) tests/live/install.sh
	$(ATTENDED) $(SWEEP)
	$(ATTENDED) $(SWEPT) $(BIN)/pytest tests/live -n $(WORKERS) --dist loadfile $(PYTEST)

# One machine at a time: an emulated one keeps two processors of the host busy.
vm-test: can-live packages $(VENV)/.built $(VENV)/.dev
	$(ATTENDED) tests/live/install.sh
	$(ATTENDED) packaging/vm/build.sh
	$(ATTENDED) env TRIKUBELET_VM_KUBELET=$(KUBELET) $(BIN)/pytest tests/vm $(PYTEST)

# It goes on after a stage that fails; without `-j`, for each has the machine to itself.
nightly: $(VENV)/.built $(VENV)/.dev
	$(BIN)/python packaging/nightly.py $(NIGHTLY)

record: can-live $(VENV)/.built $(VENV)/.dev
	$(ATTENDED) tests/live/install.sh
	$(ATTENDED) $(SWEEP)
	$(ATTENDED) $(SWEPT) env PYTHONPATH=tests $(BIN)/python -m live.kit record

surface: can-live $(VENV)/.built $(VENV)/.dev
	$(ATTENDED) tests/live/install.sh
	$(ATTENDED) $(SWEEP)
	$(ATTENDED) $(SWEPT) env PYTHONPATH=tests $(BIN)/python -m live.kit surface

# What failed stands on the page, too.
conformance: can-live $(VENV)/.built $(VENV)/.dev
	$(ATTENDED) tests/live/install.sh
	packaging/control-plane/build.sh --conformance
	$(ATTENDED) $(SWEEP)
	($(ATTENDED) $(SWEPT) env PYTHONPATH=tests $(BIN)/python -m live.kit conformance); \
	  ended=$$?; $(BIN)/python packaging/generate_conformance.py && exit $$ended

# As above. The machine must have no kubelet: the suite takes its ports.
node-conformance: linux-root $(VENV)/.built $(VENV)/.dev
	packaging/node-conformance/build.sh --check $(VERSION)
	$(ATTENDED) tests/live/install.sh
	$(ATTENDED) packaging/node-conformance/build.sh $(VERSION)
	$(ATTENDED) $(SWEEP)
	($(ATTENDED) $(SWEPT) env PYTHONPATH=tests $(BIN)/python -m live.kit node-conformance --version=$(VERSION) \
	  --focus='$(FOCUS)' --kubelet=$(KUBELET) $(if $(SERIAL),--serial)); \
	  ended=$$?; $(BIN)/python packaging/generate_conformance.py && exit $$ended

linux-root:
	@test "$$(uname -s) $$(id -u)" = "Linux 0" \
	  || { echo "make: the live tests start container runtimes: they need Linux and root" >&2; exit 1; }

can-live: linux-root
	@packaging/control-plane/build.sh --check

sim: $(VENV)/.built $(VENV)/.dev
	$(ATTENDED) $(BIN)/python -m trikubelet.testing.sim $(if $(SEED),--seed $(SEED),--seeds $(SEEDS)) $(SIM)

bench: $(VENV)/.built $(VENV)/.dev
	$(BIN)/python bench/run.py

bench-relist: $(VENV)/.built $(VENV)/.bench
	$(BIN)/trikubelet bench relist --grid $(GRID) --output bench/results/relist.json --plot docs/benchmarks
	$(BIN)/python packaging/generate_benchmarks.py

bench-cluster: can-live pyz
	$(ATTENDED) tests/live/install.sh
	$(ATTENDED) $(SWEEP)
	$(ATTENDED) $(SWEPT) env PYTHONPATH=tests $(BIN)/python bench/cluster.py

# A shell counts its own SECONDS, but make does not hand that on.
fuzz: $(VENV)/.built $(VENV)/.dev
	RELIST_FUZZ_SECONDS=$(or $(SECONDS),3600) $(CARGO) test --release --locked -p relist --test mutator -- --nocapture
	PROPTEST_CASES=$(EXAMPLES) $(CARGO) test --release --locked -p relist --test properties --test frames
	RELIST_EXAMPLES=$(EXAMPLES) $(BIN)/pytest --timeout=0 tests/relist/test_relist_differential.py
	PYTHONPATH=tests $(BIN)/python bench/http_fuzz.py --conversations $(CONVERSATIONS) $(FUZZ)

# Two at a time: each of them works on one processor.
lint: $(VENV)/.built $(VENV)/.dev
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target $(LINTS)

lint-types:
	$(BIN)/mypy

lint-tests-types:
	$(BIN)/mypy --config-file tests/mypy.ini tests bench examples

lint-rust:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --all-targets --quiet -- -D warnings

lint-style:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

lint-generated:
	$(BIN)/stubtest trikubelet._relist
	$(BIN)/python packaging/generate_stubs.py --check
	$(BIN)/python packaging/generate_types.py --check
	$(BIN)/python packaging/generate_ownership.py --check
	$(BIN)/python packaging/generate_support.py --check
	$(BIN)/python packaging/generate_benchmarks.py --check
	$(BIN)/python bench/cluster_page.py --check
	$(BIN)/python packaging/generate_conformance.py --check

tour: $(VENV)/.built
	$(ATTENDED) $(BIN)/python packaging/tour.py

lint-pages:
	$(BIN)/python packaging/contacts.py --check
	$(BIN)/python packaging/versions.py >/dev/null
	$(BIN)/python packaging/dead_links.py
	$(BIN)/python packaging/prose.py

pyz: $(VENV)/.release
	PATH=$(CURDIR)/$(BIN):$$PATH $(WITH_CARGO) packaging/build-pyz.sh

smoke: pyz
	$(ATTENDED) $(BIN)/python packaging/smoke_test.py dist/trikubelet

wheels: $(VENV)/.release
	PATH=$(CURDIR)/$(BIN):$$PATH $(WITH_CARGO) packaging/packages/build.sh --wheels

packages: $(VENV)/.release
	PATH=$(CURDIR)/$(BIN):$$PATH $(WITH_CARGO) packaging/packages/build.sh

# It signs, and publishes nothing (RELEASING.md).
release: $(VENV)/.release
	@test -n "$(KEY)" || { echo "make: a release is signed: make release KEY=path (RELEASING.md)" >&2; exit 1; }
	$(BIN)/python packaging/release.py --key "$(KEY)"

docs: $(VENV)/.docs
	$(BIN)/python packaging/build_site.py

PINS := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate

pins:
	@command -v uv >/dev/null || { echo "make: uv is missing (pip install uv)" >&2; exit 1; }
	$(PINS) pyproject.toml -o requirements/runtime.txt
	$(PINS) pyproject.toml --group build -o requirements/build.txt
	$(PINS) pyproject.toml --group dev -o requirements/dev.txt
	$(PINS) pyproject.toml --group release -o requirements/release.txt
	$(PINS) --group docs -c requirements/runtime.txt -c requirements/dev.txt -o requirements/docs.txt
	$(PINS) pyproject.toml --extra bench -o requirements/bench.txt
	$(PINS) pyproject.toml --extra otel -o requirements/otel.txt

clean:
	rm -rf $(VENV) target dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests bench packaging -name __pycache__ -prune -exec rm -rf {} +
	find src -name '*.so' -delete
