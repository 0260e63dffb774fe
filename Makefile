# What a newcomer needs is `go run ./cmd/firn demo` and `go test ./...`; the rest is here. `make help` lists it.
# Everything that is downloaded is pinned: go.mod, integration/tools, integration/clients.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Made and downloaded things; git ignores both.
BIN := $(CURDIR)/bin
CACHE := $(CURDIR)/.cache

GO ?= go
PYTHON ?= python3
MVN ?= mvn
NPM ?= npm

# A duration, or a number of runs such as 100000x.
FUZZTIME ?= 20s
BENCH ?= .
BENCHTIME ?= 1s
COUNT ?= 6
SAVE ?=
BENCH_PACKAGES ?= ./broker/record ./broker/storage ./broker/wire ./broker/server
ROWS ?= goals
EFFORT ?= thorough
BLOCKS ?= 0
# Some 30 GB on the disk that is to be measured.
SCRATCH ?= $(CACHE)/bench
# What `make race` tests. All of it by default; `make ci` looks where goroutines meet, which is what time allows.
RACE ?= ./...
RACE_CI := . ./broker/api ./broker/coordinator ./broker/group/... ./broker/purgatory ./broker/replica ./broker/server \
	./broker/storage ./broker/txn ./broker/wire \
	./compaction ./integration ./internal/network ./internal/vfs ./metastore/... ./retention ./tiering/...

# The integration tests are told where everything is.
export FIRN_BIN ?= $(BIN)/firn
export FIRN_VERSITYGW ?= $(BIN)/tools/versitygw
export FIRN_GOPEERS ?= $(BIN)/tools/gopeers
export FIRN_PYTHON ?= $(CACHE)/python/bin/python
export FIRN_NODE_MODULES ?= $(CACHE)/node/node_modules
export FIRN_KAFKA_LIB ?= $(CACHE)/kafka
export FIRN_JAVA_CLASSES ?= $(CACHE)/java

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "%-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## bin/firn, one static binary
	CGO_ENABLED=0 $(GO) build -trimpath -o $(BIN)/firn ./cmd/firn

.PHONY: test
test: ## unit, golden, data-driven, property and in-process cluster tests; needs nothing but Go
	$(GO) test ./...

.PHONY: integration
integration: build versitygw gopeers ## the built binary, an S3 server and other people's clients (FIRN_CI=1: none may miss)
	CGO_ENABLED=0 $(GO) test -tags integration -count=1 -timeout 20m ./integration/...

# An hour without a bucket takes six minutes under the race detector, and the test after it does the same for less.
RACE_SKIP := ^TestTI13TheBucketIsGoneForAnHour$$

.PHONY: race
race: ## the tests under the race detector (RACE=packages); needs a C compiler
	CGO_ENABLED=1 $(GO) test -race -timeout 35m -skip '$(RACE_SKIP)' $(RACE)

.PHONY: invariants
invariants: ## the tests with the expensive assertions
	$(GO) test -tags invariants ./...

# Go runs one fuzz target of one package at a time.
.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME
	@for package in $$(git grep -lE '^func Fuzz' -- '*_test.go' | xargs -n 1 dirname | sort -u); do \
	  for target in $$($(GO) test -list '^Fuzz' ./$$package | grep '^Fuzz'); do \
	    echo "fuzz $$package $$target"; \
	    CGO_ENABLED=0 $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x \
	      ./$$package; \
	  done; \
	done

.PHONY: bench
bench: $(BIN)/tools/benchstat ## benchmarks of the hot path beside a saved run (BENCH=pattern BENCHTIME= COUNT= SAVE=1)
	@mkdir -p $(CACHE)/bench
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -count $(COUNT) -benchmem $(BENCH_PACKAGES) \
	  | tee $(CACHE)/bench/new.txt
	@if [[ -n "$(SAVE)" ]]; then cp $(CACHE)/bench/new.txt $(CACHE)/bench/saved.txt; \
	  elif [[ -f $(CACHE)/bench/saved.txt ]]; then $(BIN)/tools/benchstat $(CACHE)/bench/saved.txt $(CACHE)/bench/new.txt; \
	  else echo "make bench SAVE=1 saves a run to compare with"; fi

# The client has a processor of its own, 1; the brokers get 0. See docs/testing.md.
.PHONY: bench-kafka
bench-kafka: build versitygw kafka-lib ## firn beside Apache Kafka: docs/benchmarks.md (ROWS=list|goals|all|names EFFORT=quick BLOCKS=)
	CGO_ENABLED=0 $(GO) build -o $(BIN)/bench ./integration/bench
	@mkdir -p $(CACHE)/bench
	taskset --cpu-list 1 $(BIN)/bench -rows '$(ROWS)' -effort $(EFFORT) -blocks $(BLOCKS) -scratch $(SCRATCH) \
	  $(if $(filter quick,$(EFFORT)),-results $(CACHE)/bench/quick.json -page $(CACHE)/bench/quick.md)

.PHONY: bench-page
bench-page: ## docs/benchmarks.md from docs/benchmarks.json
	$(GO) run ./integration/bench -rows none

.PHONY: lint
lint: $(BIN)/tools/golangci-lint ## gofmt, go vet, golangci-lint
	@unformatted=$$(git ls-files -z --cached --others --exclude-standard '*.go' | xargs -0 gofmt -l); \
	if [[ -n "$$unformatted" ]]; then echo "gofmt -w these files:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -tags integration ./integration/...
	$(GO) -C $(GOPEERS) vet ./...
	$(BIN)/tools/golangci-lint run --build-tags integration ./...

.PHONY: ci
ci: ## all that CI runs besides `make test`
	$(MAKE) lint
	$(MAKE) race RACE="$(RACE_CI)"
	$(MAKE) python node java
	FIRN_CI=1 $(MAKE) integration
	$(MAKE) fuzz FUZZTIME=2000x # a number of runs: with a duration go test fails now and then as its own time ends

.PHONY: clean
clean: ## remove what was built and downloaded here
	rm -rf $(BIN) $(CACHE)

# Tools. Each is a module of its own, so that its dependencies stay out of firn's.

.PHONY: versitygw
versitygw: $(BIN)/tools/versitygw ## the S3 server of the tests

$(BIN)/tools/versitygw: integration/tools/go.mod integration/tools/go.sum
	$(GO) -C integration/tools build -o $@ github.com/versity/versitygw/cmd/versitygw
	@touch $@

GOPEERS := integration/clients/gopeers

.PHONY: gopeers
gopeers: $(BIN)/tools/gopeers ## programs of the client tests with other Go clients

$(BIN)/tools/gopeers: $(GOPEERS)/go.mod $(GOPEERS)/go.sum $(wildcard $(GOPEERS)/*.go)
	CGO_ENABLED=0 $(GO) -C $(GOPEERS) build -o $@ .
	@touch $@

$(BIN)/tools/golangci-lint: integration/tools/lint/go.mod integration/tools/lint/go.sum
	$(GO) -C integration/tools/lint build -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@

$(BIN)/tools/benchstat: integration/tools/benchstat/go.mod integration/tools/benchstat/go.sum
	$(GO) -C integration/tools/benchstat build -o $@ golang.org/x/perf/cmd/benchstat
	@touch $@

.PHONY: python
python: $(CACHE)/python/.installed ## a virtual environment with the Python clients

$(CACHE)/python/.installed: integration/clients/requirements.txt
	$(PYTHON) -m venv --clear $(CACHE)/python
	$(CACHE)/python/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

.PHONY: node
node: $(CACHE)/node/.installed ## kafkajs and its codecs

$(CACHE)/node/.installed: integration/clients/js/package.json integration/clients/js/package-lock.json \
		integration/clients/js/.npmrc
	rm -rf $(CACHE)/node
	mkdir -p $(CACHE)/node
	cp $^ $(CACHE)/node
	$(NPM) ci --loglevel=error --prefix $(CACHE)/node
	@touch $@

.PHONY: kafka-lib
kafka-lib: $(CACHE)/kafka/.installed ## Kafka's own jars

$(CACHE)/kafka/.installed: integration/clients/pom.xml
	rm -rf $(CACHE)/kafka
	$(MVN) --batch-mode --quiet -f $< dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(CACHE)/kafka
	@touch $@

.PHONY: java
java: $(CACHE)/java/.installed ## programs of the client tests with Java clients

$(CACHE)/java/.installed: $(CACHE)/kafka/.installed $(wildcard integration/clients/java/*.java)
	rm -rf $(CACHE)/java
	javac -cp '$(CACHE)/kafka/*' -d $(CACHE)/java integration/clients/java/*.java
	@touch $@
