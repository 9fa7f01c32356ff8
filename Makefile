# All that a contributor types. Servers come from containers where an engine and
# the images are at hand, otherwise from the distribution's packages;
# DELAYBRIDGE_SERVERS=containers|packages decides.
.DEFAULT_GOAL := help
SHELL := /bin/bash

# Most tests wait for a broker rather than for a processor, so many run at a time. RACE=1 looks for data races, too,
# which takes twice as long on two cores.
GOTEST     := go test $(if $(RACE),-race) -shuffle=on -count=1 -parallel=8 -timeout=20m
# The client first: go test prints results in the order of the packages, and if something basic is broken, it is here.
# Then the longest, so that none of them is alone at the end, and those that mostly wait.
FIRST      := . ./redisbridge ./cmd/delaybridge ./internal/fault ./internal/doctor ./topology ./consumer ./producer/... \
	./internal/broker ./internal/servers
DEVSERVERS := go run ./internal/servers/cmd/devservers
LINTER     := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  \033[1m%-18s\033[0m %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## See unpaid orders being closed on time, in less than a minute
	@go run ./examples/demo

.PHONY: build
build: ## Build bin/delaybridge
	@go build -o bin/delaybridge ./cmd/delaybridge

.PHONY: up
up: build ## Start servers, topology and a bridge to try things on: eval "$(make -s up)"
	@$(DEVSERVERS) up --bridge bin/delaybridge

.PHONY: down
down: ## Stop what up has started and remove its data
	@$(DEVSERVERS) down

.PHONY: test
test: ## Run every test, against real servers
	@$(DEVSERVERS) run --databases -- $(GOTEST) $(FIRST) ./...
	@cd bench/compare && $(GOTEST) ./...

.PHONY: test-integration
test-integration: ## Run the tests of the packages that talk to servers, but not the fault run
	@$(DEVSERVERS) run --databases -- $(GOTEST) $$(go list -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' ./... \
		| awk '/internal\/servers/ && $$1 !~ /internal\/fault$$/ { print $$1 }')

# CLUSTER_TESTS is what there is to test beside the servers themselves.
CLUSTER_TESTS ?= . ./redisbridge/... ./producer/... ./consumer ./consumer/ledger/redis ./topology/... ./cmd/...

.PHONY: screenshots
screenshots: ## Write what the management UI shows under load to bin/screenshots
	@DELAYBRIDGE_SCREENSHOTS="$$PWD/bin/screenshots" $(GOTEST) ./internal/ui

.PHONY: test-clusters
test-clusters: ## Run the tests on Redis Cluster, on Sentinel, and on RabbitMQ with one node of three down
	@DELAYBRIDGE_REDIS_LAYOUT=cluster $(DEVSERVERS) run -- $(GOTEST) $(CLUSTER_TESTS)
	@DELAYBRIDGE_REDIS_LAYOUT=sentinel $(DEVSERVERS) run -- $(GOTEST) $(CLUSTER_TESTS)
	@DELAYBRIDGE_RABBITMQ_LAYOUT=cluster $(DEVSERVERS) run -- $(GOTEST) $(CLUSTER_TESTS)

.PHONY: test-frameworks
test-frameworks: ## Run what docs/frameworks.md and docs/protocols.md show, on RabbitMQ 4; installs the frameworks
	@$(DEVSERVERS) run -- go test -tags=frameworks -count=1 -parallel=4 -timeout=10m ./examples/frameworks

.PHONY: test-charts
test-charts: ## Render the Helm chart, and start the program with what comes out; needs no server
	@cd charts && go test -shuffle=on -count=1 -timeout=10m ./...

.PHONY: lint
lint: ## Check the style of Go and shell
	@command -v golangci-lint >/dev/null || test -x "$$(go env GOPATH)/bin/golangci-lint" || go install $(LINTER)
	@PATH="$$PATH:$$(go env GOPATH)/bin" golangci-lint run --build-tags=frameworks ./...
	@cd bench/compare && PATH="$$PATH:$$(go env GOPATH)/bin" golangci-lint run -c ../../.golangci.yml ./...
	@cd internal/release && PATH="$$PATH:$$(go env GOPATH)/bin" golangci-lint run -c ../../.golangci.yml ./...
	@cd charts && PATH="$$PATH:$$(go env GOPATH)/bin" golangci-lint run -c ../.golangci.yml ./...
	@shellcheck .ci/run .ci/engine .ci/images .ci/image/*/entrypoint examples/shell/*.sh examples/frameworks/types/*.sh internal/release/packaging/*.sh

.PHONY: bench
bench: ## Measure throughput and lateness; JSON=FILE writes the figures too
	@go run ./bench $(if $(JSON),-json '$(JSON)')

.PHONY: bench-scale
bench-scale: ## Measure size and speed, up to ten million parked; JSON=FILE ONLY=park,promote
	@go run ./bench -scale $(if $(JSON),-json '$(JSON)') $(if $(ONLY),-only '$(ONLY)')

.PHONY: bench-compare
bench-compare: ## Measure the bridge beside what else delays messages; JSON=FILE ARGS='-only bridge,river'
	@cd bench/compare && go run . $(if $(JSON),-json '$(abspath $(JSON))') $(ARGS)

.PHONY: fault
fault: ## Try to break every promise; DURATION=10m SEED=n ONLY='redis killed' STORE=mysql
	@go run ./internal/fault/cmd/fault $(if $(DURATION),-duration '$(DURATION)') $(if $(SEED),-seed '$(SEED)') $(if $(ONLY),-only '$(ONLY)') $(if $(STORE),-store '$(STORE)')

.PHONY: fault-long
fault-long: DURATION ?= 10m
fault-long: fault ## The same for ten minutes, with more faults at once; DURATION SEED ONLY STORE

.PHONY: mutants
mutants: ## Break the product on purpose, and see that make fault finds it (two hours); ONLY='nack' DURATION=2m
	@go run ./internal/fault/cmd/mutants $(if $(DURATION),-duration '$(DURATION)') $(if $(SEED),-seed '$(SEED)') $(if $(ONLY),-only '$(ONLY)')

.PHONY: pause
pause: ## Measure what it costs when every bridge stands still
	@go run ./internal/fault/cmd/fault -pause

.PHONY: release
release: ## Build archives, packages, images and checksums into dist/; PLATFORMS=linux/amd64 DIRTY=1
	@go run -C internal/release . -out "$$PWD/dist" $(if $(PLATFORMS),-platforms '$(PLATFORMS)') $(if $(DIRTY),-dirty)

.PHONY: release-test
release-test: ## Install, use, upgrade and remove what release builds; takes root, and images
	@$(DEVSERVERS) run -- go -C internal/release test -count=1 -timeout=20m ./...

.PHONY: images
images: ## Build the images that CI tests against, from Debian packages
	@.ci/engine
	@.ci/images
