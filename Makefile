# All development commands. Each target creates the environment it needs; only python3 and make are required.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Python compiles what it imports; pip would compile all of torch, most of which is never imported.
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test lint docs integrations bench studies soak mutants clean

help:
	@echo "make demo     train and attack three models on the embedded digits (1 to 3 minutes)"
	@echo "make test     lint, types and all tests except the long ones"
	@echo "make lint     ruff and mypy only"
	@echo "make docs     the documentation site, in build/site"
	@echo "make integrations  the tests with other libraries, all of them installed"
	@echo "make bench    timings, as ratios within one run, saved in benchmarks/results"
	@echo "make studies  repeat the measurements of the README's tables, and write them"
	@echo "make soak     the long checks: kills and faults, seed sweeps, many thousand damaged files"
	@echo "make mutants  break the code on purpose and check that the tests fail"

# If these files change, the environment is created again.
$(VENV)/runtime.stamp: pyproject.toml constraints.txt
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) -e .
	@touch $@

# torchattacks and adv-lib depend on packages that are not needed here, such as torchvision.
$(VENV)/dev.stamp: $(VENV)/runtime.stamp
	@$(PIP) -e '.[dev]'
	@$(PIP) --no-deps torchattacks adv-lib
	@touch $@

demo: $(VENV)/runtime.stamp
	@$(BIN)/maxmahal demo

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Strict: a broken link, a page outside of the navigation or a public name without a docstring is an error. Both builders
# must accept the pages; Zensical's site is kept.
docs: $(VENV)/dev.stamp
	$(BIN)/python tools/docs_site.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir build/mkdocs
	$(BIN)/zensical build --strict

# With worksteal a worker gets neighbouring tests, which share fixtures, and takes tests of the other when it is done.
test: lint
	@tools/chromium.sh
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal -m "not soak"

# Not into the environment: torchmetrics and others import a torchvision that they find, and this one is built for CUDA.
$(VENV)/integrations: $(VENV)/dev.stamp tests/integrations/requirements.txt
	@rm -rf $@
	@$(PIP) --no-deps --target $@ -r tests/integrations/requirements.txt
	@touch $@

# Without these libraries, `make test` skips their tests; here they must run.
integrations: $(VENV)/integrations
	OMP_NUM_THREADS=1 MAXMAHAL_REQUIRE_INTEGRATIONS=1 PYTHONPATH=$(CURDIR)/$(VENV)/integrations \
		$(BIN)/pytest -n 2 tests/integrations

# Without a browser, `make test` skips the tests of pages; here they must run.
soak: $(VENV)/dev.stamp
	@tools/chromium.sh
	OMP_NUM_THREADS=1 MAXMAHAL_REQUIRE_CHROMIUM=1 $(BIN)/pytest -n 2 tests/report/test_page_in_chromium.py
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 -m soak
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz.run --seed 1 --count 10000

mutants: $(VENV)/dev.stamp
	$(BIN)/python tools/mutants.py

bench: $(VENV)/dev.stamp
	$(BIN)/python benchmarks/train_step.py
	$(BIN)/python benchmarks/centers.py
	$(BIN)/python benchmarks/many_classes.py
	$(BIN)/python benchmarks/attack_overhead.py
	$(BIN)/python benchmarks/attack_growth.py
	$(BIN)/python benchmarks/attack_peers.py
	$(BIN)/python benchmarks/record_overhead.py

studies: $(VENV)/dev.stamp
	$(BIN)/python -m paper.studies.convergence
	$(BIN)/python -m paper.studies.honesty
	$(BIN)/python -m paper.studies.peers_table
	$(BIN)/python -m paper.studies.false_robustness
	$(BIN)/python -m paper.readme
	$(BIN)/python tools/tutorials.py

clean:
	rm -rf $(VENV) runs build .pytest_cache .mypy_cache .ruff_cache .hypothesis
