# The front door of the repository: `make run` and `make test` are all a newcomer needs.
.PHONY: help setup build run test bench soak fuzz format headers lint asan clean
.DEFAULT_GOAL := help

PYTHON := /usr/bin/python3
JOBS ?= $(shell nproc)

help: ## what there is to make
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install the Debian packages that are missing; silent when nothing is
	@scripts/setup

build: ## leaves build/cove, and build/cove-mcp-fixtures for --mcp-fixtures
	@scripts/setup run scripts/build release cove cove-mcp-fixtures

run: ## build and serve on 127.0.0.1:8000; says what to try
	@scripts/setup run scripts/build release cove
	@scripts/first-run build/cove

test: setup ## every test; make test WORDS="…" runs those whose name or file has one of these words
	@scripts/test $(WORDS)

asan: setup ## every test of a door, of security and of the command line under AddressSanitizer and UBSan; hours
	@scripts/build asan
	@scripts/clients
	@COVE_BUILD=build-asan scripts/test --sanitized

bench: setup build ## Cove beside bubblewrap, tar, docker and jupyter-server, in one run, as ratios
	@scripts/build release jail_bench
	@build/bench/jail_bench build/cove
	@$(PYTHON) bench/server_bench.py --cove build/cove
	@$(PYTHON) bench/python_bench.py --cove build/cove
	@$(PYTHON) bench/mcp_bench.py --cove build/cove
	@$(PYTHON) bench/network_bench.py --cove build/cove
	@$(PYTHON) bench/tools_bench.py --cove build/cove

soak: setup build ## long runs: thousands of sandboxes, then a leak check
	@$(PYTHON) bench/soak.py --cove build/cove
	@$(PYTHON) bench/server_soak.py --cove build/cove
	@$(PYTHON) bench/python_soak.py --cove build/cove
	@COVE=$(CURDIR)/build/cove COVE_BUILD_DIR=$(CURDIR)/build COVE_SOAK=1 $(PYTHON) -m pytest -q -p no:cacheprovider tests/e2e/test_restart.py tests/e2e/test_reliability.py tests/security/test_http_abuse.py tests/security/test_archives.py tests/security/test_access.py tests/security/test_tenants.py

fuzz: setup ## the fuzzers, a minute each
	@scripts/fuzz 60

format: ## clang-format over everything of ours
	@git ls-files '*.cpp' '*.hpp' | xargs clang-format-19 -i

headers: setup ## every header compiles alone
	@scripts/build release all_verify_interface_header_sets

lint: headers ## clang-tidy over what changed since it was last clean (FILES="…" for these alone), and the headers
	@scripts/lint $(FILES)

clean: ## remove what was built
	@rm -rf build build-dev build-asan build-fuzz build-tsan
