# The tasks of this repository. `make` alone lists them.

GO            ?= go
ARGS          ?=
FUZZTIME      ?= 20s
TEST_TIMEOUT  ?= 14m
GOLANGCI_LINT_VERSION := v2.12.2
GOVULNCHECK_VERSION   := v1.8.0

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# What the program shows as its version: the tag and the commits since, for example v1.2.0-3-g1a2b3c4. Empty without git.
VERSION = $(shell git describe --tags --always --dirty 2>/dev/null)
GO_BUILD = $(GO) build $(BUILD_FLAGS) -trimpath -ldflags '-X main.gitVersion=$(VERSION)' -o bin/ledgerline ./cmd/ledgerline

# An installed golangci-lint of the right version, else bin/golangci-lint, which `make lint` builds.
GOLANGCI_LINT = $(shell \
	for tool in "$$(command -v golangci-lint)" "$$($(GO) env GOPATH)/bin/golangci-lint" "$(CURDIR)/bin/golangci-lint"; do \
		if [ -x "$$tool" ] && "$$tool" version --short 2>/dev/null | grep -qxF "$(GOLANGCI_LINT_VERSION:v%=%)"; then echo "$$tool"; exit; fi; \
	done; \
	echo "$(CURDIR)/bin/golangci-lint")

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-8s %s\n", $$1, $$2 }'
	@echo
	@echo '  ARGS="…" gives flags to run, bench and crash: make run ARGS="--addr 127.0.0.1:9000".'
	@echo '  FUZZTIME=20s is how long fuzz runs each target; TEST_TIMEOUT=14m bounds each package of test and race.'

.PHONY: run
run: BUILD_FLAGS = -v
run: ## Run everything in dev mode, with a private PostgreSQL; Ctrl-C stops it
	@echo 'building; the first time takes a few minutes'
	@$(GO_BUILD) 2>&1 | awk '/^[^ ]+$$/ { printf "\r%d packages built", NR; fflush(); next } { print } END { if (NR) print "" }'
	@exec bin/ledgerline dev $(ARGS)

.PHONY: build
build: ## Build bin/ledgerline
	$(GO_BUILD)

.PHONY: test
test: ## Run all tests against a real PostgreSQL that they start themselves
	$(GO) test -timeout $(TEST_TIMEOUT) ./...

.PHONY: race
race: ## Run all tests with the race detector
	$(GO) test -race -timeout $(TEST_TIMEOUT) ./...

# The linter caches absolute paths, so every checkout needs a cache of its own.
.PHONY: lint
lint: ## Check format, modules and code
	@unformatted="$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go' | while read -r f; do [ -f "$$f" ] && echo "$$f"; done))"; \
	if [ -n "$$unformatted" ]; then echo "not formatted (gofmt -w):"; echo "$$unformatted"; exit 1; fi
	$(GO) mod verify
	$(GO) mod tidy -diff
	$(GO) vet ./...
	@linter="$(GOLANGCI_LINT)"; \
	if [ ! -x "$$linter" ] || ! "$$linter" version --short 2>/dev/null | grep -qxF "$(GOLANGCI_LINT_VERSION:v%=%)"; then \
		echo "building golangci-lint $(GOLANGCI_LINT_VERSION) into bin/, once; this takes a few minutes"; \
		GOBIN="$(CURDIR)/bin" $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION); \
	fi; \
	echo "$$linter run ./..."; GOLANGCI_LINT_CACHE="$(CURDIR)/bin/lint-cache" "$$linter" run ./...

# The check needs a database of known vulnerabilities from the network. Without it the check is skipped, with a line.
.PHONY: vuln
vuln: ## Check the dependencies for known vulnerabilities
	@GOFLAGS= GOBIN="$(CURDIR)/bin" $(GO) install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION); \
	if found="$$(bin/govulncheck ./... 2>&1)"; then echo "no known vulnerabilities"; \
	elif grep -q 'fetching vulnerabilities' <<<"$$found"; then echo "skipped: the database of known vulnerabilities cannot be reached"; \
	else echo "$$found"; exit 1; fi

.PHONY: clients
clients: ## Generate a Go and a TypeScript client from the OpenAPI document, and compile them
	@test/clients/check.sh

.PHONY: bench
bench: ## Measure the service, each figure beside a raw baseline
	@exec $(GO) run ./cmd/ledgerline bench $(ARGS)

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME
	@{ grep -rlE --include='*_test.go' '^func Fuzz[A-Z]' . || true; } | sort | while read -r file; do \
		grep -oE '^func Fuzz[A-Za-z0-9_]+' "$$file" | awk '{ print $$2 }' | while read -r target; do \
			echo "fuzzing $$target in $$(dirname "$$file") for $(FUZZTIME)"; \
			$(GO) test -run='^$$' -fuzz="^$$target\$$" -fuzztime=$(FUZZTIME) "$$(dirname "$$file")" </dev/null; \
		done; \
	done

.PHONY: crash
crash: ## Kill the service and PostgreSQL repeatedly under load, and count what is lost
	@exec $(GO) run ./cmd/ledgerline crash $(ARGS)

.PHONY: fresh
fresh: ## Lint and test the last commit in a clone of its own
	@dir="$$(mktemp -d)"; trap 'rm -rf "$$dir"' EXIT; \
	git clone --quiet --no-hardlinks "$(CURDIR)" "$$dir/ledgerline"; \
	$(MAKE) --no-print-directory -C "$$dir/ledgerline" lint test

.PHONY: clean
clean: ## Remove what was built; the data in .ledgerline stays
	rm -rf bin dist
