# Two commands matter: `make book` builds the site, `make test` runs every check.
# Both set up .venv first. Python 3.11 or newer and make are all they need.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CHAPTERS := $(wildcard chapters/*.ipynb)
MASTERS := $(wildcard exercises/solutions/*.ipynb)

# More threads are slower on small models, and a busy machine makes it much worse.
export OMP_NUM_THREADS ?= 1
# The tests start Python hundreds of times: what is compiled once is kept.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup book test test-mechanism test-exercises test-grader test-book test-lowest quick tables check lint lab run exercises bootstrap renumber new bench dist repository clean

help:
	@echo "make book               build the site and say where to open it"
	@echo "make test               build the site and run every check"
	@echo "make test-PART          one part of it: mechanism, exercises, grader or book"
	@echo "make test-lowest        the mechanism and the figures with the oldest releases that are allowed"
	@echo "make quick              what a change breaks most often, in less than a minute"
	@echo "make tables             write the tables of the book that the tests found changed"
	@echo "make check              what CI does: make test, and nothing may be skipped"
	@echo "make lab                open the notebooks in JupyterLab"
	@echo "make run NB=PATH ...    execute notebooks in place (default: all of them)"
	@echo "make exercises          write student notebooks and cards from the masters"
	@echo "make bootstrap          write the cell that installs the course into every notebook"
	@echo "make renumber           number the chapters as _toc.yml orders them"
	@echo "make new NAME=strided   stubs for a new mechanism, from the equation to the exercises:"
	@echo "                        KIND=mask, score or variant, EXERCISES=3 (default: variant, 1)"
	@echo "                        AFTER=sinks: its chapter stands behind that one (default: before the capstone)"
	@echo "                        EXERCISES=0: no chapter; CHAPTER=masks: that one; FAMILY=linear: the file of spec/"
	@echo "make new KIND=exercise NAME=blind_spot CHAPTER=masks    stubs for an exercise alone"
	@echo "make bench              measure the figures that the book shows"
	@echo "make dist               build the wheel and the sdist, install each, solve an exercise with it"
	@echo "make repository URL=... point the notebooks at your fork"

# Three workers on two cores: tests of the sandbox and of the browser wait much of their time.
PYTEST := $(BIN)/python -m pytest --nbval -n 3 --dist loadscope --no-loadscope-reorder

# The kernels' tests were written for this version: its interpreter, and its compiler's output.
TRITON := triton==3.7.1
KERNELS := $(VENV)/.kernels

# The libraries that the benchmarks and tests/peers compare with; nothing else needs them.
BENCH := $(VENV)/.bench

setup: $(READY)

$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || \
		{ echo "Python 3.11 or newer is needed; name one with: make PYTHON=python3.12"; exit 1; }
	test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	touch $(READY)

# Triton is 700 MB and exists for Linux only; elsewhere the tests of the kernels are left out.
$(KERNELS): $(READY)
	if [ "$$(uname)" = Linux ]; then $(BIN)/python -m pip install --quiet --disable-pip-version-check "$(TRITON)"; fi
	touch $(KERNELS)

# From an empty folder: a second build over the first writes other bytes, and proofs of the pages would not hold.
book: $(READY)
	rm -rf _build/html
	$(BIN)/jupyter-book build . --all -W -n --keep-going -q
	@echo "Open file://$(CURDIR)/_build/html/index.html"

test: lint book $(KERNELS) $(BENCH)
	$(PYTEST) tests $(CHAPTERS) $(MASTERS)

check:
	CI=true $(MAKE) test

# The same in four parts, as CI runs them.
test-mechanism: lint $(KERNELS) $(BENCH)
	$(PYTEST) tests/mechanism tests/peers

test-exercises: lint $(KERNELS)
	$(PYTEST) tests/exercises $(MASTERS)

test-grader: lint $(KERNELS)
	$(PYTEST) tests/grader

test-book: lint book $(KERNELS)
	$(PYTEST) tests/book $(CHAPTERS)

# An environment of its own. CI=true: what passes here is no proof of what the other environment does. Old releases call
# what the newest of others have deprecated.
LOWEST := $(VENV)/.lowest

test-lowest: $(READY)
	$(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-lowest.txt \
		--editable ".[grade,class]" $$(grep -E '^(torch|pytest[a-z-]*|nbval|beartype)==' requirements.txt) pyyaml "$(TRITON)"
	CI=true $(LOWEST)/bin/python -m pytest -n 3 -W ignore::DeprecationWarning \
		tests/mechanism tests/book/test_*figures.py

quick: lint
	$(PYTEST) -m quick tests

tables: $(READY) $(KERNELS)
	$(PYTEST) -m tables tests --write-tables

lint: $(READY)
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check attncourse attngrade benchmarks chapters/_ext tests tools
	$(BIN)/mypy --no-error-summary

lab: $(READY)
	$(BIN)/jupyter lab

run: $(READY)
	$(BIN)/python tools/run_notebooks.py $(or $(NB),$(CHAPTERS) $(MASTERS))

exercises: $(READY)
	$(BIN)/python tools/make_exercises.py

bootstrap: $(READY)
	$(BIN)/python tools/bootstrap.py

renumber: $(READY)
	$(BIN)/python tools/renumber.py
	$(BIN)/python tools/make_exercises.py

new: $(READY)
	@test -n "$(NAME)" || { echo "Name it: make new NAME=strided; make help lists the rest"; exit 1; }
	$(BIN)/python tools/new.py $(or $(KIND),variant) --exercises $(or $(EXERCISES),1) $(CHAPTER:%=--chapter %) \
		$(AFTER:%=--after %) $(FAMILY:%=--family %) -- $(NAME)
	$(BIN)/python tools/make_exercises.py

$(BENCH): $(READY) pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[bench]"
	touch $(BENCH)

bench: $(BENCH)
	$(BIN)/python benchmarks/heads.py
	$(BIN)/python benchmarks/decode.py
	$(BIN)/python benchmarks/flash.py
	$(BIN)/python benchmarks/window.py
	$(BIN)/python benchmarks/global_local.py
	$(BIN)/python benchmarks/scores.py
	$(BIN)/python benchmarks/linear.py
	$(BIN)/python benchmarks/edges.py
	$(BIN)/python benchmarks/peers.py
	$(BIN)/python benchmarks/checking.py
	$(BIN)/python benchmarks/grading.py
	$(BIN)/python benchmarks/grading.py --thousand
	$(BIN)/python benchmarks/budgets.py

# An environment that holds what was built and what it asks for, and nothing of this folder.
INSTALLED := $(VENV)/.dist

# The wheel is made from the sdist. Torch is the book's; all else is the newest that pyproject.toml allows.
dist: $(READY)
	rm -rf dist
	$(BIN)/python -m build
	$(PYTHON) -m venv --clear $(INSTALLED)
	$(INSTALLED)/bin/python -m pip install --quiet --disable-pip-version-check "$$(grep '^torch==' requirements.txt)" dist/*.whl
	$(INSTALLED)/bin/python -I tools/try_dist.py
	$(INSTALLED)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall dist/*.tar.gz
	$(INSTALLED)/bin/python -I tools/try_dist.py

clean:
	rm -rf _build dist $(VENV)

repository: $(READY)
	@test -n "$(URL)" || { echo "Name the fork: make repository URL=https://github.com/you/attncourse"; exit 1; }
	$(BIN)/python tools/bootstrap.py --url "$(URL)"
