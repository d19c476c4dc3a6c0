# The commands of people, CI and the Dockerfile. `make` alone lists them.

unexport PYTHONDONTWRITEBYTECODE# the tests start hundreds of processes, and each would compile every file again

PYTHON ?= python3
SERVER ?= server# or server-gpu, for an NVIDIA GPU
VENV ?= $(if $(filter server-gpu,$(SERVER)),.venv-gpu,.venv)# onnxruntime's packages for CPUs and for GPUs exclude each other
GAMES ?= 100
MODEL ?= flagship
HOST ?= 127.0.0.1
PORT ?= 50051
REST_PORT ?= 8000
CHECKPOINT ?= checkpoints/$(NAME)
NAME ?= mine
TEACHER ?= models/ntuple/4
WORKERS ?= 4
SOURCE ?= --checkpoint $(CHECKPOINT)# or the flags of any other network, see docs/export.md
PIP = $(VENV)/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt
BIN = $(VENV)/bin
SERVING = $(if $(filter expectimax ntuple-deep perimeter,$(MODEL)),players,light)# players search with numba
COMPILED = game/octofold_game players/octofold_players training/octofold_training papers/octofold_papers
PRODUCT = $(addsuffix /*.py,proto game players training papers export server client)# counted by `make weight`
PYTEST = $(BIN)/pytest --numprocesses $(WORKERS) --dist worksteal

help: ## show this list
	@echo "Octofold serves networks that play 2048, and judges how well they play."
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  Variables: GAMES=$(GAMES) MODEL=$(MODEL) HOST=$(HOST) PORT=$(PORT) REST_PORT=$(REST_PORT) NAME=$(NAME) TEACHER=$(TEACHER) CHECKPOINT=$(CHECKPOINT)"

setup: $(VENV)/light ## make the environment that serves and plays (no torch)

play: $(VENV)/$(SERVING) ## play GAMES full games against MODEL, served on a free loopback port
	$(BIN)/octofold play --games $(GAMES) --model $(MODEL)

serve: $(VENV)/$(SERVING) ## serve the models in models/, and new ones as they appear: gRPC on HOST:PORT, REST and /metrics on HOST:REST_PORT
	@mkdir -p runs; echo "starting; the log is in runs/serve-$(PORT).log"; $(BIN)/octofold-serve --default-model $(MODEL) --host $(HOST) \
		--port $(PORT) --rest-port $(REST_PORT) --watch 5 2>runs/serve-$(PORT).log || { code=$$?; tail -n 1 runs/serve-$(PORT).log >&2; \
		echo "other ports: make serve PORT=50052 REST_PORT=8001" >&2; exit $$code; }

train: $(VENV)/dev ## train checkpoints/NAME by training/recipes/NAME.toml, from TEACHER (NAME=mine: less than an hour); continues where it stopped
	$(BIN)/octofold-train student training/recipes/$(NAME).toml --teacher $(TEACHER)

first: $(VENV)/dev ## train, export, play and compare a first network of your own in five minutes
	@trap : INT; awk 'BEGIN {print "trap \"exit 130\" INT; set -v"} /^```sh run$$/ {on = 1; next} /^```$$/ {on = 0} on' \
		examples/first-network/README.md | PATH="$(abspath $(BIN)):$$PATH" sh -e # after Ctrl-C, waits until the run is saved

export: $(VENV)/dev ## publish CHECKPOINT (or SOURCE, such as "--onnx net.onnx") as the next version of models/NAME, if it is at most NO_WORSE_THAN=X% worse
	$(BIN)/octofold-export $(SOURCE) --name $(NAME) $(if $(NO_WORSE_THAN),--no-worse-than $(NO_WORSE_THAN))

teacher: $(VENV)/dev ## train models/teacher, a large n-tuple network, in hours; continues where it stopped
	$(BIN)/octofold-train teacher training/recipes/teacher.toml
	$(BIN)/octofold-export --ntuple runs/teacher --name teacher

bench: $(VENV)/dev ## measure the graph and the service on this machine
	$(BIN)/python bench/graph/graph.py --model $(MODEL)
	$(BIN)/python bench/serving/serving.py --model $(MODEL) $(if $(filter ntuple,$(MODEL)),--precision fp32)

browser: ## install what the tests of the page need: Debian's Chromium (needs root)
	@command -v chromium-headless-shell >/dev/null || \
		{ apt-get update && apt-get install --option Acquire::Retries=3 --yes --no-install-recommends chromium-headless-shell; }

table: $(VENV)/light ## rebuild the README's table of results from the model cards and docs/speed.md
	$(BIN)/python bench/strength/table.py

cards: $(VENV)/dev ## rebuild the pages of the models, models/*/*/README.md, from their cards
	$(BIN)/python bench/strength/pages.py

lint: $(VENV)/dev ## check style, types and import directions
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: $(if $(TESTS),$(VENV)/dev,$(VENV)/compiled-tests) ## run all tests but the long ones (or those that TESTS names), in WORKERS processes
	$(PYTEST) $(TESTS)

test-long: $(VENV)/dev ## run the slow tests: whole trainings, examples, benches, Ray, the soak, other Pythons and grpcios
	$(PYTEST) --dist loadfile --no-loadscope-reorder -m long $(TESTS)

weight: ## count the lines of product, tests and benches, and the prose in KB
	@lines() { git ls-files "$$@" | grep -v _pb2 | xargs -r cat | wc -l; }; \
	for part in $(PRODUCT:%/*.py=%) tests bench; do printf '%-9s%7d lines\n' $$part `lines "$$part/*.py"`; done; \
	printf 'product  %7d lines in %d modules\n' `lines $(PRODUCT)` `git ls-files $(PRODUCT) | grep -cv '_pb2\|__init__'`; \
	printf 'prose    %7d KB\n' `git ls-files '*.md' ':!models/*' | xargs cat | wc -c | sed 's/...$$//'`

format: $(VENV)/dev ## write the code in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove the environment and all caches; models, checkpoints and runs stay
	rm -rf $(VENV) .*_cache .hypothesis octofold.cdx.json
	find . -name __pycache__ -type d -not -path './runs/*' -prune -exec rm -rf {} +

proto: $(VENV)/dev ## generate the stubs from the .proto files
	$(BIN)/python -m octofold_proto.generate

sbom: $(VENV)/bin/pip ## write octofold.cdx.json: the packages of a server's environment, as CycloneDX
	rm -rf $(VENV)/sbom
	$(PYTHON) -m venv $(VENV)/sbom/tool
	$(PIP:$(VENV)/%=$(VENV)/sbom/tool/%) cyclonedx-bom
	$(PYTHON) -m venv $(VENV)/sbom/server
	$(PIP:$(VENV)/%=$(VENV)/sbom/server/%) '.[$(SERVER)]'
	$(VENV)/sbom/tool/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
		--output-file octofold.cdx.json $(VENV)/sbom/server/bin/python

docker: ## build an image that serves models/ (with CUDA: SERVER=server-gpu)
	docker build --tag octofold $(if $(BASE),--build-arg BASE=$(BASE)) --build-arg SERVER=$(SERVER) .

# Why the environment does not fit this clone and its Python; empty if it fits. venv notes the folder and the version
# in pyvenv.cfg. In a copied or moved clone, the commands would run the code of the old folder, or nothing.
UNFIT := $(shell test -f $(VENV)/pyvenv.cfg || exit 0; \
	noted() { sed -n "s/^$$1 = //p" $(VENV)/pyvenv.cfg; }; \
	minor='import sys; print("%d.%d" % sys.version_info[:2])'; \
	made=`noted version | cut -d . -f 1,2`; \
	found=`$(VENV)/bin/python -c "$$minor" 2>/dev/null || echo gone`; \
	wanted=$(if $(filter file,$(origin PYTHON)),$$made,`$(PYTHON) -c "$$minor"`); \
	case "`noted command`" in ("" | *" $(abspath $(VENV))") ;; (*) echo "it is that of another folder"; exit ;; esac; \
	test "$$made" = "$$found" || { echo "its Python $$made is now $$found"; exit; }; \
	test "$$made" = "$$wanted" || echo "it has Python $$made instead of $$wanted")

$(VENV)/bin/pip: $(if $(UNFIT),unfit)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Octofold needs Python 3.11 or newer; PYTHON=$(PYTHON) is `$(PYTHON) --version`" >&2; exit 1; }
	@$(if $(UNFIT),echo "Making the environment $(VENV) anew: $(UNFIT)"; rm -rf $(VENV))
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "No virtual environment can be made; on Debian and Ubuntu, install python3-venv" >&2; exit 1; }

# numba caches compiled code by the caller's file, and does not notice changes in the files of called functions.
$(VENV)/compiled: $(wildcard $(patsubst %,%/*.py,$(COMPILED) $(addsuffix /*,$(COMPILED)))) | $(VENV)/bin/pip
	@find $(wildcard $(COMPILED)) -name '*.nb[ci]' -delete
	@touch $@

# Otherwise, each process of the tests would compile the same functions. If one fails to compile, a test says so.
$(VENV)/compiled-tests: tests/shared/support/compiled.py $(VENV)/compiled $(VENV)/dev
	-$(BIN)/python $<
	@touch $@

ifneq ($(UNFIT),)
$(VENV)/compiled $(VENV)/light: $(VENV)/bin/pip
endif

# An order-only prerequisite, because dev installs a newer pip.
$(VENV)/light: pyproject.toml constraints.txt | $(VENV)/bin/pip $(VENV)/compiled
	@echo "Installing Octofold and its packages into $(VENV): about a minute"
	@$(PIP) --editable '.[$(SERVER)]'
	@touch $@

$(VENV)/players: $(VENV)/light
	@echo "Installing numba into $(VENV) for players that search: half a minute"
	@$(PIP) --editable '.[$(SERVER),players]'
	@touch $@

# Older releases of pip know no dependency groups. --no-compile: only a sixth of the files is ever imported,
# and Python compiles those at their first import.
$(VENV)/dev: $(VENV)/light
	@test $(SERVER) != server-gpu || \
		{ echo "SERVER=server-gpu serves and plays only; leave it out here" >&2; exit 1; }
	@echo "Installing torch and what trains, exports and tests into $(VENV): some minutes (PIP_EXTRA_INDEX_URL may name PyTorch's CPU index, see README.md)"
	@$(PIP) --no-compile torch # PyPI's build for Linux includes gigabytes of CUDA; PIP_EXTRA_INDEX_URL may name an index with the CPU build
	@$(PIP) 'pip>=25.1'
	@$(PIP) --no-compile --editable '.[server,plots,gymnasium-window,ray,tracing,training,export]' --group dev
	@touch $@

.PHONY: help setup play serve train first export teacher bench table cards lint test test-long weight format clean proto docker browser sbom unfit
