# Ledgerline: what can be done here. `make` alone lists it.

GO            ?= go
ARGS          ?=
FUZZTIME      ?= 20s
TEST_TIMEOUT  ?= 14m
GOLANGCI_LINT_VERSION := v2.12.2

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# The linter that is installed when it has the right version, else one of our own in bin/.
GOLANGCI_LINT = $(shell \
	for tool in "$$(command -v golangci-lint)" "$$($(GO) env GOPATH)/bin/golangci-lint" "$(CURDIR)/bin/golangci-lint"; do \
		if [ -x "$$tool" ] && "$$tool" version --short 2>/dev/null | grep -qxF "$(GOLANGCI_LINT_VERSION:v%=%)"; then echo "$$tool"; exit; fi; \
	done; \
	echo "$(CURDIR)/bin/golangci-lint")

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-8s %s\n", $$1, $$2 }'
	@echo
	@echo '  ARGS="…" is passed on by run, bench and crash; FUZZTIME=… (each target) by fuzz.'

.PHONY: run
run: ## Run everything in dev mode, with a PostgreSQL of its own; Ctrl-C stops it
	@echo 'building; the first time takes a minute'
	@$(GO) build -o bin/ledgerline ./cmd/ledgerline
	@exec bin/ledgerline dev $(ARGS)

.PHONY: build
build: ## Build bin/ledgerline
	$(GO) build -trimpath -o bin/ledgerline ./cmd/ledgerline

.PHONY: test
test: ## Run all tests against a real PostgreSQL that they start themselves
	$(GO) test -timeout $(TEST_TIMEOUT) ./...

.PHONY: race
race: ## Run all tests with the race detector
	$(GO) test -race -timeout $(TEST_TIMEOUT) ./...

# The linter's cache is the checkout's own: what it remembers of another checkout's files has that one's paths.
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

.PHONY: bench
bench: ## Measure, each figure beside a raw baseline
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
crash: ## Kill the service and PostgreSQL again and again under load, and count what is lost
	@exec $(GO) run ./cmd/ledgerline crash $(ARGS)

.PHONY: fresh
fresh: ## Lint and test the last commit in a clone of its own
	@dir="$$(mktemp -d)"; trap 'rm -rf "$$dir"' EXIT; \
	git clone --quiet --no-hardlinks "$(CURDIR)" "$$dir/ledgerline"; \
	$(MAKE) --no-print-directory -C "$$dir/ledgerline" lint test

.PHONY: clean
clean: ## Remove what was built; the data in .ledgerline stays
	rm -rf bin dist
