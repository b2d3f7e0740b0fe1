# `make demo` and `make test` set everything up by themselves: all they need is Python 3.11 or newer.

BIN := .venv/bin
READY := .venv/.ready
PYTHON ?= $(shell for python in python3.11 python3 python3.12 python3.13; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)

.PHONY: demo studio test lint format slow fuzz kill interop e2e clean

demo: $(READY)
	$(BIN)/dgpnet demo

# The page in the browser, on the demo's photographs.
studio: $(READY)
	test -d demo/photographs || $(BIN)/dgpnet demo --photographs demo/photographs
	$(BIN)/dgpnet studio demo/photographs --model small

test: lint
	$(BIN)/pytest -q -n 2 --dist worksteal -m "not slow and not kill and not e2e"

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

slow: $(READY)
	$(BIN)/pytest -q -m slow

# More than 10,000 made-up and broken annotation files, others each time; a few minutes.
fuzz: $(READY)
	DGPNET_FUZZ=800 $(BIN)/pytest -q -n 2 --dist worksteal -m fuzz

# Other programs read what we write, and we what they write; prints how well each agrees.
interop: .venv-interop/.ready
	YOLO_AUTOINSTALL=false YOLO_OFFLINE=true YOLO_CONFIG_DIR=$(CURDIR)/.venv-interop QT_QPA_PLATFORM=offscreen \
		.venv-interop/bin/pytest -q tests/interop

# A hundred kills at random times: the same command again comes to the same files.
kill: $(READY)
	$(BIN)/pytest -q -n 2 -m kill tests/kill

# The studio's page in a real browser (Chromium), with every tool, two tabs, kills and thousands of photographs; prints
# what it measures. Pictures of the documentation: PICTURES=1. axe-core judges how accessible the page is.
e2e: $(READY) .e2e/package/axe.min.js
	$(BIN)/pytest -q tests/studio/e2e
	$(if $(PICTURES),$(BIN)/python -m tests.studio.e2e.pictures)

# Fifty clients for two minutes, bad requests among them; prints how quickly they were answered.
.PHONY: load
load: $(READY)
	$(BIN)/python -m tests.studio.load

# Schemathesis asks the studio's API all that its OpenAPI document allows, and some that it does not.
.PHONY: schema
schema: .venv-schema/.ready
	.venv-schema/bin/pytest -q tests/studio/test_schema.py

.venv-schema/.ready: pyproject.toml constraints.txt
	test -x .venv-schema/bin/python || $(PYTHON) -m venv .venv-schema
	.venv-schema/bin/python -m pip install --quiet --constraint constraints.txt torch==2.13.0
	.venv-schema/bin/python -m pip install --quiet --constraint constraints.txt --editable ".[studio]" httpx hypothesis pytest schemathesis
	touch $@

# Label Studio itself on this machine with our back end behind it, and CVAT's own code with our function; some minutes.
# Pictures of the documentation: PICTURES=1, which needs Chromium.
.PHONY: backends
backends: .venv-backends/.ready .venv-label-studio/.ready
	LABEL_STUDIO=$(CURDIR)/.venv-label-studio/bin/label-studio .venv-backends/bin/pytest -q tests/backends/real
	$(if $(PICTURES),LABEL_STUDIO=$(CURDIR)/.venv-label-studio/bin/label-studio .venv-backends/bin/python -m tests.backends.real.pictures)

# The two programs' own libraries want an older NumPy than we do.
.venv-backends/.ready: pyproject.toml constraints.txt
	test -x .venv-backends/bin/python || $(PYTHON) -m venv .venv-backends
	grep -v "^numpy=\|^pillow=" constraints.txt > .venv-backends/constraints.txt
	.venv-backends/bin/python -m pip install --quiet --constraint .venv-backends/constraints.txt torch==2.13.0
	.venv-backends/bin/python -m pip install --quiet --constraint .venv-backends/constraints.txt \
		--editable ".[cvat,demo,labelstudio]" httpx hypothesis label-studio-sdk playwright pytest
	touch $@

# Pins everything that it needs, each in a version of its own.
.venv-label-studio/.ready: Makefile
	test -x .venv-label-studio/bin/python || $(PYTHON) -m venv .venv-label-studio
	.venv-label-studio/bin/python -m pip install --quiet label-studio==1.23.2
	touch $@

# A job shared by a Ray cluster of three nodes, all on this machine; object storage by moto; 20,000 photographs. Twenty
# minutes; prints what it measures.
.PHONY: scale
scale: .venv-scale/.ready
	.venv-scale/bin/pytest -q tests/cluster

# moto's and s3fs's own dependencies want older versions of two packages.
.venv-scale/.ready: pyproject.toml constraints.txt
	test -x .venv-scale/bin/python || $(PYTHON) -m venv .venv-scale
	grep -v "^multidict=\|^python-dateutil=" constraints.txt > .venv-scale/constraints.txt
	.venv-scale/bin/python -m pip install --quiet --constraint .venv-scale/constraints.txt torch==2.13.0
	.venv-scale/bin/python -m pip install --quiet --constraint .venv-scale/constraints.txt \
		--editable ".[scale]" hypothesis "moto[server]" psutil pytest s3fs
	touch $@

.e2e/package/axe.min.js:
	mkdir -p .e2e
	cd .e2e && npm pack --silent axe-core@4.14.0 && tar xzf axe-core-4.14.0.tgz package/axe.min.js
	touch $@

clean:
	rm -rf .venv .venv-* .e2e

# PyTorch first and alone, so that the build which the machine's package index offers for its version is taken and
# nothing later replaces it. A CPU build is enough.
$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[train,hf,dev]"
	touch $@

# Some of these programs want an older NumPy and Pillow than we do. Ultralytics asks for torchvision, whose wheels need
# another build of PyTorch, but what is used of it does without.
.venv-interop/.ready: pyproject.toml constraints.txt
	test -x .venv-interop/bin/python || $(PYTHON) -m venv .venv-interop
	grep -v "^numpy=\|^pillow=" constraints.txt > .venv-interop/constraints.txt
	.venv-interop/bin/python -m pip install --quiet --constraint .venv-interop/constraints.txt torch==2.13.0
	.venv-interop/bin/python -m pip install --quiet --constraint .venv-interop/constraints.txt \
		--editable ".[interop]" labelme polars psutil
	.venv-interop/bin/python -m pip install --quiet --constraint .venv-interop/constraints.txt \
		--no-deps torchvision ultralytics
	touch $@

# -- a release: docs/releasing.md ----------------------------------------------------------------------------------------

.PHONY: wheel
wheel:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) tools/wheel.py

# The site reads dgpnet and does not import it: an environment of its own, without PyTorch.
.PHONY: docs
docs: .venv-docs/.ready
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --clean
	@echo "Look at it with: $(PYTHON) -m http.server --directory site"

.venv-docs/.ready: pyproject.toml constraints.txt
	test -x .venv-docs/bin/python || $(PYTHON) -m venv .venv-docs
	$(PYTHON) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["docs"], sep="\n")' \
		| .venv-docs/bin/python -m pip install --quiet --constraint constraints.txt --requirement /dev/stdin
	touch $@
