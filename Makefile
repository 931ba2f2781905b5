# app-operator. `make` lists the targets; docs/ and README.md tell the rest.
#
# Every tool is pinned in hack/tools/<tool>/go.mod and built from Go modules into bin/;
# nothing here downloads a script or a binary from a web site.

VERSION ?= 0.2.0
IMAGE_TAG_BASE ?= quay.io/app-operator/app-operator
# The manager's image: docker-build makes it, deploy, build-installer and bundle name it.
IMG ?= $(IMAGE_TAG_BASE):v$(VERSION)
BUNDLE_IMG ?= $(IMAGE_TAG_BASE)-bundle:v$(VERSION)
CATALOG_IMG ?= $(IMAGE_TAG_BASE)-catalog:v$(VERSION)
# The tag that clusters follow, as config/olm has it: a release moves it to its catalog. One for each major version, as the channels are.
CATALOG_FOLLOWED_IMG ?= $(IMAGE_TAG_BASE)-catalog:v$(firstword $(subst ., ,$(VERSION)))
# Of a version of its own: that of config/scorecard.
SCORECARD_IMG ?= $(IMAGE_TAG_BASE)-scorecard:v1
CATALOG_TEMPLATE ?= catalog/semver.yaml
# The channels of a bundle for who installs it without the catalog; in the catalog, CATALOG_TEMPLATE says.
CHANNELS ?= stable-v0,candidate-v0
DEFAULT_CHANNEL ?= stable-v0

# docker, podman or buildah.
CONTAINER_TOOL ?= docker
PLATFORMS ?= linux/amd64,linux/arm64,linux/ppc64le,linux/s390x
# Further flags for the container tool, such as PUSH_FLAGS=--tls-verify=false.
BUILD_FLAGS ?=
PUSH_FLAGS ?=

# A machine without kubectl has the one that the demo and the tests build.
KUBECTL ?= $(shell command -v kubectl || echo "$$(hack/cluster/build.sh)/kubectl")
# Server-side, so that what others set is theirs, and a conflict with them is said, not overwritten.
# APPLY_FLAGS=--force-conflicts takes over.
APPLY_FLAGS ?=
# What of config/components comes with it, such as COMPONENTS='prometheus network-policy'.
COMPONENTS ?=
# An additional operator has a namespace and names of its own, which only an overlay can set: these targets would change the first operator.
ifneq ($(filter additional-instance,$(COMPONENTS) $(FROM)),)
ifneq ($(filter deploy build-installer undeploy undeploy-keep prune,$(MAKECMDGOALS)),)
$(error additional-instance is for an overlay with another namespace and a nameSuffix, see docs/scale.md, "Several operators"; nothing was done)
endif
endif
APPLY = $(KUBECTL) apply --server-side --field-manager=app-operator-deploy $(APPLY_FLAGS) -f -
DELETE = $(KUBECTL) delete --ignore-not-found -f -

# Of a fixed length: that of --short alone grows with the number of objects in a clone, and the programs contain it.
COMMIT = $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
LDFLAGS = -X main.version=v$(VERSION) -X main.commit=$(COMMIT)

# The API is a module of its own, and so is a program that uses its client: where go means "all packages", it means those of
# one module, so each target goes through the three. test/consumer stays a list of what such a program needs.
MODULES = . api test/consumer
# each COMMAND: runs it in each module, all of them even if one fails.
each = failed=; for module in $(MODULES); do (cd $$module && set -x && $(1)) || failed=yes; done; [ -z "$$failed" ]

# Which tests: PKG=./internal/... RUN=TestName TESTFLAGS='-v -count=1'. Packages of api/ go by their folder, too: PKG=./api/...
PKG ?= ./...
RUN ?=
TESTFLAGS ?=
TEST_TIMEOUT ?= 60m
# The race detector makes the tests three times slower and needs a C compiler: `make test-race` and CI switch it on.
RACE ?=
# How many suites run side by side. They wait more than they compute; with the race detector, the longest one leaves a third of two cores idle.
SUITES ?= $(if $(RACE),1,$(if $(CI_LONG),2,3))
# How far the heaps of tests and of their API servers grow: larger ones take less time to collect. The race detector has large ones anyway.
TEST_GOGC ?= $(if $(RACE),100,300)

# One setting for all: with two, Go compiles every package twice. Only -race asks for another.
export CGO_ENABLED = 0

SHELL = /usr/bin/env bash -o pipefail
.SHELLFLAGS = -ec
.DEFAULT_GOAL = help
.DELETE_ON_ERROR:

##@ General

.PHONY: help
help: ## Show this.
	@awk 'BEGIN {FS = ":.*##"; printf "Usage: make \033[36m<target>\033[0m [VARIABLE=value]\n"} \
		/^[a-zA-Z_0-9-]+:.*##/ {printf "  \033[36m%-16s\033[0m %s\n", $$1, $$2} \
		/^##@/ {printf "\n\033[1m%s\033[0m\n", substr($$0, 5)}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## A Kubernetes on this machine, the operator and one of each kind; Ctrl-C ends it. DEMO_EXIT=1: it ends by itself.
	@hack/demo.sh

.PHONY: clean
clean: ## Remove what was built into the tree.
	rm -rf bin dist cover.out

##@ Development

.PHONY: generate
generate: bin/controller-gen generate-client ## Generate the DeepCopy methods and the client of api/.
	cd api && ../bin/controller-gen object:headerFile=../hack/boilerplate.go.txt paths=./v1/...

# The four generators of Kubernetes' own client, as its script calls them; that script installs them outside of this tree.
API_MODULE = huolala.cn/app-operator/api
CLIENT_GENERATORS = applyconfiguration-gen client-gen lister-gen informer-gen
CLIENT_HEADER = --go-header-file ../hack/boilerplate.go.txt
.PHONY: generate-client
generate-client: $(CLIENT_GENERATORS:%=bin/%) ## Generate the typed client, api/client: clientset, informers, listers and apply configurations.
	rm -rf api/client
	cd api && ../bin/applyconfiguration-gen $(CLIENT_HEADER) --output-dir client/applyconfiguration \
		--output-pkg $(API_MODULE)/client/applyconfiguration $(API_MODULE)/v1
	go run ./hack/omitzero api/v1 api/client/applyconfiguration/api/v1
	cd api && ../bin/client-gen $(CLIENT_HEADER) --output-dir client/clientset --output-pkg $(API_MODULE)/client/clientset \
		--clientset-name versioned --apply-configuration-package $(API_MODULE)/client/applyconfiguration \
		--input-base $(dir $(API_MODULE)) --input api/v1
	cd api && ../bin/lister-gen $(CLIENT_HEADER) --output-dir client/listers --output-pkg $(API_MODULE)/client/listers $(API_MODULE)/v1
	cd api && ../bin/informer-gen $(CLIENT_HEADER) --output-dir client/informers --output-pkg $(API_MODULE)/client/informers \
		--versioned-clientset-package $(API_MODULE)/client/clientset/versioned --listers-package $(API_MODULE)/client/listers \
		$(API_MODULE)/v1

# By way of a folder of its own: config/ sees a definition only once it is trimmed and within its budget.
.PHONY: manifests
manifests: generate ## Generate the CRDs, the webhooks and the manager's roles from the markers.
	rm -rf bin/crd
	cd api && ../bin/controller-gen crd:generateEmbeddedObjectMeta=true paths=./v1/... output:crd:artifacts:config=../bin/crd
	bin/controller-gen rbac:roleName=manager-role webhook paths=./controllers/... paths=./webhooks/... \
		output:rbac:artifacts:config=config/rbac output:webhook:artifacts:config=config/webhook
	bin/controller-gen rbac:roleName=certificate-role paths=./internal/certificate/... output:rbac:artifacts:config=config/webhook
	go run ./hack/crdtrim bin/crd config/crd/bases

.PHONY: docs
docs: bin/crd-ref-docs ## Generate the API reference, docs/api.md, and docs/observability.md with the dashboards.
	mkdir -p docs
	cd api && ../bin/crd-ref-docs --source-path=v1 --config=../hack/crd-ref-docs.yaml --renderer=markdown \
		--log-level=ERROR --output-path=../docs/api.md
	go run ./hack/observability

.PHONY: fmt
fmt: ## Format the Go code.
	gofmt -l -w . # files, not packages: those of all modules

# In a variable, as a comma would end the argument of `each`.
TAGS = e2e,gateway
.PHONY: vet
vet: ## Run go vet.
	@$(call each,go vet -tags $(TAGS) ./...)

.PHONY: lint
# The cache of findings names files by where they are: one for all clones would report those of another.
lint: words workflows bin/golangci-lint ## Run the linters (.golangci.yml says why each), make words and make workflows.
	@export GOLANGCI_LINT_CACHE='$(CURDIR)/bin/golangci-lint-cache'; $(call each,'$(CURDIR)/bin/golangci-lint' run)

.PHONY: words
words: ## Check the words of documentation, manifests, scripts and Go code by the list in hack/words.txt, and the phrases of comments.
	@hack/words.sh
	@hack/phrases.sh

.PHONY: workflows
workflows: bin/actionlint ## Check the workflows in .github/workflows.
	bin/actionlint -shellcheck= -pyflakes= .github/workflows/*.yml

.PHONY: verify
verify: ## Check that all that is generated is up to date, and formatting, go.mod, vet and the CRDs' sizes.
	@hack/verify.sh

.PHONY: assets
assets: ## Build the Kubernetes of demo and tests, once a version; prints its folder.
	@hack/cluster/build.sh

# The Kubernetes of the tests: the user's, or the one that is built here.
WITH_ASSETS = assets="$${KUBEBUILDER_ASSETS:-$$(hack/cluster/build.sh)}"; \
	export KUBEBUILDER_ASSETS="$$assets" CLUSTER_BINARY="$${CLUSTER_BINARY:-$$assets/cluster}"
# What PKG names of the API's module and of the operator's; ./... is all of both, and ./test/ui is a module of its own.
API_PKG = $(filter ./...,$(PKG)) $(patsubst ./api/%,./%,$(filter ./api/%,$(PKG)))
ROOT_PKG = $(filter-out ./api/% ./test/ui,$(PKG))
# The folders with the packages that need no Kubernetes; the tests of any other one may need it.
UNIT_FOLDERS = cmd controllers hack internal plugin resource webhooks test/bundle test/definitions test/fixture test/specs
NEED_ASSETS = $(filter-out $(foreach folder,$(UNIT_FOLDERS),./$(folder) ./$(folder)/%),$(ROOT_PKG))
# vet is a target of its own; here it would only run twice.
GO_TEST = GOGC=$(TEST_GOGC) go test -vet=off -timeout $(TEST_TIMEOUT) $(if $(RUN),-run '$(RUN)') $(TESTFLAGS)

# CI_LONG=1, as make test-long has it, asks for the long forms: all crashes rather than a few of them, more random specs and faults, and
# test/chaos, which else runs by its name alone.
PARTS = $(if $(filter ./...,$(PKG)),test-all,$(if $(strip $(API_PKG)),test-api) $(if $(ROOT_PKG),test-operator) $(if $(filter ./test/ui,$(PKG)),test-ui))
.PHONY: test
test: ## Run all tests, against a real API server. PKG=, RUN= and TESTFLAGS= choose; KUBEBUILDER_ASSETS= brings your own.
	@failed=; $(if $(strip $(PARTS)),$(MAKE) --no-print-directory $(PARTS) || failed=1;) $(if $(filter test-all test-ui,$(PARTS)),$(MAKE) --no-print-directory not-run;) [ -z "$$failed" ]

# What a machine without a program leaves out, and the command that brings the program; silent where there is nothing to say.
.PHONY: not-run
not-run:
	@[ -n '$(CHROMIUM)' ] || echo 'not run: test/ui, as there is no Chromium. On Debian: apt-get install chromium; elsewhere, CHROMIUM= names the program'
	@[ -z '$(CHROMIUM)' ] || [ -e bin/axe.min.js ] || echo 'not run: the test of accessibility in test/ui, as $(if $(shell command -v npm),npm has not brought $(AXE) from its registry. Try again: make bin/axe.min.js,there is no npm. On Debian: apt-get install npm)'

# First all is compiled, then the suites run, SUITES at a time: each has a control plane of its own, and side by side with
# many others, or with compilers, it would on a small machine mostly test patience.
# The race detector is not asked about packages without goroutines: it would make them eight times slower.
# The longest suites begin first: next to them there is time for all others.
LONGEST = /test/(integration|workload)$$
WITHOUT_CHAOS = $(if $(CI_LONG),,$(filter ./...,$(ROOT_PKG)))
WITHOUT_RACE = /(resource|test/definitions|test/fixture|test/specs)$$
# Bounds of memory, which the race detector raises: these tests run without it, the other ones of the package with it.
COST_PACKAGE = /webhooks$$
COST_TESTS = TestCostOfLists|TestReviewsLeaveNothing
# The tools that test/chart runs: they are built before the suites, as all else that is compiled is.
CHART_TOOLS = $(if $(filter ./... ./test/... ./test/chart ./test/chart/...,$(ROOT_PKG)),bin/kustomize bin/helm)
.PHONY: test-operator
test-operator: $(CHART_TOOLS) # Without an API server: make test-unit. With one: make test-integration, make test-workload.
	@$(if $(NEED_ASSETS),$(WITH_ASSETS);) packages="$$(go list -buildvcs=false $(ROOT_PKG)$(if $(WITHOUT_CHAOS), | grep -v /test/chaos$$))"; \
		packages="$$(grep -E '$(LONGEST)' <<<"$$packages" || true; grep -vE '$(LONGEST)' <<<"$$packages" || true)"; \
		plain="$$(grep -E '$(if $(RACE),$(WITHOUT_RACE),.)' <<<"$$packages" || true)"; \
		raced="$$(grep -vE '$(if $(RACE),$(WITHOUT_RACE),.)' <<<"$$packages" || true)"; failed=; set -x; \
		if [ -n "$$plain" ]; then go list -buildvcs=false -test -deps -export $$plain >/dev/null; $(GO_TEST) -p $(SUITES) $$plain || failed=1; fi; \
		costs="$$(grep -E '$(COST_PACKAGE)' <<<"$$raced" || true)"; \
		if [ -n "$$costs" ]; then $(GO_TEST) -run '$(or $(RUN),$(COST_TESTS))' $$costs || failed=1; fi; \
		if [ -n "$$raced" ]; then export CGO_ENABLED=1; go list -buildvcs=false -test -deps -export $(RACE) $$raced >/dev/null; \
			$(GO_TEST) -p $(SUITES) $(RACE) $$raced || failed=1; fi; \
		[ -z "$$failed" ]

# The packages whose tests have a long form. The race detector finds the same races in the short forms, and would make the long ones last
# for half an hour. Tests without a long form are those of make test.
LONG_PKG = ./test/integration ./test/chaos ./test/chart ./webhooks
LONG_RUN = $(or $(RUN),$(shell go run ./hack/longforms $(LONG_PKG:./test/chaos=./test/chaos/...)))
.PHONY: test-long
test-long: ## Run the long forms of the tests that have one: all crashes, more random specs and faults, and test/chaos. RUN= chooses.
	@run='$(LONG_RUN)'; [ -n "$$run" ] || exit 1; $(MAKE) --no-print-directory test-operator CI_LONG=1 RACE= PKG='$(LONG_PKG)' RUN="$$run"

.PHONY: test-unit
test-unit: ## Run the tests that need no API server.
	@$(MAKE) --no-print-directory test-operator test-api \
		PKG='./api/... $(UNIT_FOLDERS:%=./%/...)'

.PHONY: test-integration
test-integration: ## Run the tests of the manager against an API server. RUN= chooses.
	@$(MAKE) --no-print-directory test-operator PKG=./test/integration

.PHONY: test-workload
test-workload: ## Run the tests with pods on simulated nodes. RUN= chooses.
	@$(MAKE) --no-print-directory test-operator PKG=./test/workload

.PHONY: examples
examples: ## Test the Apps in examples/: accepted without warnings, and different from the originals only as wanted.
	@$(MAKE) --no-print-directory test-operator PKG=./test/examples

# The versions of Kubernetes that hack/versions pins, the oldest one first.
VERSIONS ?= $(patsubst hack/versions/v%.mod,%,$(sort $(wildcard hack/versions/v*.mod)))
.PHONY: test-versions
test-versions: ## Run test/integration and test/examples on the oldest and the newest supported Kubernetes; prints a table. VERSIONS=, PKG= and RUN= choose.
	@PKG='$(filter-out ./...,$(PKG))' RUN='$(RUN)' TESTFLAGS='$(TESTFLAGS)' hack/versions/test.sh $(VERSIONS)

.PHONY: test-race
test-race: ## Run all tests with the race detector. Needs a C compiler.
	@$(MAKE) --no-print-directory test RACE=-race

# The operator's suites, and next to them, one at a time, those that are modules with libraries of their own: all is compiled before.
APART = test-ui $(SOME_GITOPS:%=test-gitops-%) test-cluster test-networkpolicy test-consumer
.PHONY: test-all
test-all: test-api
	@for module in test/ui $(SOME_GITOPS:%=test/gitops/%) test/networkpolicy test/consumer; do \
			(cd $$module; go list -buildvcs=false -test -deps -export ./... >/dev/null); done; \
		(cd hack/cluster; go list -buildvcs=false -test -deps -export -trimpath ./... >/dev/null); \
		$(MAKE) --no-print-directory -j 2 SOME_GITOPS='$(SOME_GITOPS)' test-operator test-apart

.PHONY: test-apart
test-apart:
	@$(WITH_ASSETS); failed=; for target in $(APART); do $(MAKE) --no-print-directory $$target || failed=1; done; [ -z "$$failed" ]

# The suites of make test, N times.
N ?= 10
.PHONY: flakes
flakes: ## Run the tests N=10 times, each in a fresh clone while other processes keep the processors busy, and list what failed how often. PKG=, RUN= and LOAD= choose.
	@PKG='$(PKG)' RUN='$(RUN)' TESTFLAGS='$(TESTFLAGS)' LOAD='$(LOAD)' hack/flakes.sh '$(N)'

# Needs no API server.
.PHONY: test-api
test-api:
	@export CGO_ENABLED=$(if $(RACE),1,0); cd api; set -x; $(GO_TEST) $(RACE) $(API_PKG)

.PHONY: test-consumer
test-consumer:
	@cd test/consumer; set -x; $(GO_TEST) -count=1 ./...

# With the flags of hack/cluster/build.sh, or all of Kubernetes would be compiled a second time.
.PHONY: test-cluster
test-cluster:
	@$(WITH_ASSETS); cd hack/cluster; set -x; $(GO_TEST) -trimpath ./...

# The evaluator is a module with its own versions of libraries. Needs no API server.
.PHONY: test-networkpolicy
test-networkpolicy: ## Ask an evaluator of NetworkPolicies what traffic those of Apps and ModelBoxes allow.
	@cd test/networkpolicy; set -x; $(GO_TEST) ./...

# The browser of test/ui; none with CHROMIUM= on the command line. The tests read the variable alone, so that a browser that is installed
# later is no cached result.
ifeq ($(origin CHROMIUM),undefined)
CHROMIUM := $(firstword $(foreach name,chromium chromium-browser google-chrome,$(shell command -v $(name))))
endif
export CHROMIUM

# The browser's protocol is in a module of its own. Without a browser the tests are skipped, and without npm or its registry that of accessibility
# is; where CI=true they fail.
.PHONY: test-ui
test-ui: ## Use the application centre with a browser: Debian's package chromium, or CHROMIUM=. RUN= chooses.
	@$(if $(and $(CHROMIUM),$(shell command -v npm)),$(MAKE) --no-print-directory bin/axe.min.js || [ "$${CI:-}" != true ])
	@$(WITH_ASSETS); export TEST_INPUTS="$$(find $(UI_INPUTS) -type f 2>/dev/null | LC_ALL=C sort | xargs cat | cksum)"; \
		cd test/ui; set -x; $(GO_TEST) ./...
# Files outside of its module, in which Go looks for no change before it takes a cached result.
UI_INPUTS = config cmd/kubectl-happ bin/axe.min.js

# The proxy's module has the clients of all clouds: it takes a quarter of an hour to build on two cores, once. The tests run in a network
# of their own, in which all addresses of simulated pods are this machine's: no other network is touched.
.PHONY: test-gateway
test-gateway: bin/traefik ## Send requests through Traefik to what ingress and httpRoute make. Linux; needs unshare and ip. RUN= chooses.
	@mkdir -p dist; $(WITH_ASSETS); set -x; go test -vet=off -tags gateway -c -o dist/gateway.test ./test/gateway; \
		cd test/gateway; TRAEFIK='$(CURDIR)/bin/traefik' unshare --map-root-user --net sh -ec 'ip link set lo up; \
		ip route add local 10.244.0.0/16 dev lo; exec "$$@"' sh ../../dist/gateway.test $(GATEWAY_FLAGS)
# The tests mostly wait.
GATEWAY_FLAGS = -test.v -test.parallel 6 -test.timeout $(TEST_TIMEOUT) $(if $(RUN),-test.run '$(RUN)')

.PHONY: screenshots
screenshots: ## Take the pictures of docs/ui.md, docs/images/ui-*.png, with Chromium. Look at them before you commit them.
	@mkdir -p docs/images; $(WITH_ASSETS); cd test/ui; set -x; \
		CI=true SCREENSHOTS='$(CURDIR)/docs/images' $(GO_TEST) -count=1 -run TestScreenshots ./...

.PHONY: test-score
test-score: bin/kube-score ## Let kube-score judge the objects of the full sample.
	KUBE_SCORE='$(CURDIR)/bin/kube-score' go test -vet=off -count=1 -run '^TestScore$$' -v ./resource

# Each client is a module with its own versions of Kubernetes' libraries. Argo CD's compares by Kubernetes' own types.
GITOPS ?= $(ALL_GITOPS)
ALL_GITOPS = stage flux argocd
# One of them in the short form of all tests, another one each minute.
SOME_GITOPS := $(if $(CI_LONG),$(ALL_GITOPS),$(word $(shell echo $$(($$(date +%s) / 60 % 3 + 1))),$(ALL_GITOPS)))
.PHONY: test-gitops
test-gitops: $(GITOPS:%=test-gitops-%) ## Apply, compare, wait and prune by kubectl, Flux and Argo CD themselves. GITOPS='stage flux argocd' chooses the clients.
test-gitops-%:
	@$(WITH_ASSETS); cd test/gitops/$*; set -x; $(GO_TEST) -count=1 ./...

# What of it is in `make test` is a few hundred specs, always the same ones: a change fails for what it changes. FUZZ_SEED= makes
# a failure happen again.
FUZZ_SEED ?= $(shell date +%s)
FUZZ_SPECS ?= 5000
FUZZ_APPS ?= 500
FUZZ_BUILDS ?= 1000000
.PHONY: fuzz
fuzz: ## Random specs, right and wrong: FUZZ_SPECS= of them against a real API server, FUZZ_APPS= through the manager, FUZZ_BUILDS= through the rules and builders alone.
	@$(WITH_ASSETS); set -x; FUZZ_SEED=$(FUZZ_SEED) FUZZ_SPECS=$(FUZZ_SPECS) FUZZ_APPS=$(FUZZ_APPS) FUZZ_BUILDS=$(FUZZ_BUILDS) \
		go test -vet=off -count=1 -timeout 6h -v -run '^TestRules|^TestRandom' ./test/integration

.PHONY: chaos
chaos: ## Let everything fail around the manager, in numbers that count; up to 20 minutes. RUN= chooses, CHAOS_SEED= repeats.
	@$(WITH_ASSETS); set -x; CHAOS=full go test -vet=off -count=1 -timeout 30m -v $(if $(RUN),-run '$(RUN)') $(TESTFLAGS) ./test/chaos

# One that is chosen with RUN= is printed alone; the whole is written into docs/bench.
BENCH_OUT ?= $(if $(RUN),,docs/bench)
.PHONY: bench bench-manager bench-ui
bench: $(if $(filter BenchmarkUI,$(RUN)),bench-ui,bench-manager) ## Measure the manager next to the least that its work can cost, two hours; writes docs/bench. RUN=BenchmarkSingle, BENCH_SIZES= and BENCH_ROUNDS= choose, BENCH_ADD=1 BENCH_OUT=docs/bench adds to the page; RUN=BenchmarkUI measures the application centre.

bench-ui:
	@$(WITH_ASSETS); cd test/ui; set -x; CI=true go test -vet=off -timeout 1h -run NONE -bench BenchmarkUI -benchtime 1x $(TESTFLAGS) ./...

bench-manager:
	@$(WITH_ASSETS); set -x; BENCH_OUT='$(abspath $(BENCH_OUT))' \
		go test -vet=off -timeout 6h -run NONE -bench '$(or $(RUN),.)' -benchtime 1x $(TESTFLAGS) ./test/bench; \
		$(if $(BENCH_OUT),cd hack/chart; go run . '$(abspath $(BENCH_OUT))/bench.json' '$(abspath $(BENCH_OUT))/bench.svg')

# promtool has the last word: on the rules, on each alert in three cases, on the dashboards' expressions, and on the names and
# help texts of the metrics that a running manager exports.
.PHONY: observability
observability: bin/promtool ## Check metrics, alerts and dashboards with promtool and a running manager.
	@mkdir -p dist/observability
	go run ./hack/observability -rules dist/observability
	bin/promtool check rules --lint=all --lint-fatal dist/observability/alerts.yaml dist/observability/dashboards.yaml
	cp test/observability/alerts_test.yaml dist/observability/
	bin/promtool test rules dist/observability/alerts_test.yaml
	@$(WITH_ASSETS); export METRICS_OUT='$(CURDIR)/dist/observability/metrics.txt'; set -x; \
		$(GO_TEST) -count=1 ./hack/observability/... ./test/observability
	bin/promtool check metrics < dist/observability/metrics.txt

# Not among the others: it builds images, and takes over a cluster. The head of test/e2e/main_test.go tells what it takes.
E2E_TIMEOUT ?= 90m
.PHONY: e2e
e2e: bin/kustomize bin/helm bin/operator-sdk bin/opm bin/crane ## Prove what is delivered on the cluster of KUBECONFIG, by way of E2E_REGISTRY. RUN=Delivery/deploy runs a part.
	CONTAINER_TOOL='$(CONTAINER_TOOL)' BUILD_FLAGS='$(BUILD_FLAGS)' PUSH_FLAGS='$(PUSH_FLAGS)' \
		go test -vet=off -tags e2e -count=1 -timeout $(E2E_TIMEOUT) -v $(if $(RUN),-run '$(RUN)') $(TESTFLAGS) ./test/e2e

##@ Build

.PHONY: build
build: manifests bin/manager ## Build the manager, bin/manager.

# Go knows best whether there is anything to do.
.PHONY: bin/manager
bin/manager:
	go build -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/manager .

# kubectl finds it as "kubectl happ" once bin is in PATH.
.PHONY: kubectl-happ
kubectl-happ: ## Build the kubectl plug-in, bin/kubectl-happ.
	go build -trimpath -buildvcs=false -ldflags '-s -w $(LDFLAGS)' -o bin/kubectl-happ ./cmd/kubectl-happ

# As the Dockerfile builds it: without anything of the machine, the folder or the tree's state in it.
RELEASE_FLAGS = -trimpath -buildvcs=false -ldflags '-s -w $(LDFLAGS)'

# The module of the API is in the programs by its folder; it has the operator's version.
.PHONY: sbom
sbom: bin/cyclonedx-gomod ## Write what the programs of the image are made of into dist/sbom.cdx.json and dist/sbom-viewer.cdx.json (CycloneDX), as they tell it themselves.
	mkdir -p dist
	GOOS=linux go build $(RELEASE_FLAGS) -o dist/manager .
	GOOS=linux go build $(RELEASE_FLAGS) -o dist/kubectl-happ ./cmd/kubectl-happ
	for file in manager:sbom kubectl-happ:sbom-viewer; do \
		bin/cyclonedx-gomod bin -json -std -noserial -notimestamp -version v$(VERSION) -output - dist/$${file%:*} | \
		sed -e 's|golang/\./api@(devel)|golang/$(API_MODULE)@v$(VERSION)|' -e 's|"name": "\./api"|"name": "$(API_MODULE)"|' \
			-e 's|"version": "(devel)"|"version": "v$(VERSION)"|' > dist/$${file#*:}.cdx.json || exit 1; \
	done
	@! grep -n '(devel)\|"\./' dist/sbom*.cdx.json # A folder would say nothing to a reader elsewhere.

.PHONY: reproducible
reproducible: ## Build the programs of the image twice from nothing, in two folders; fails if the two builds differ, and prints the checksums.
	@hack/reproducible.sh $(RELEASE_FLAGS)

ARGS ?= --metrics-bind-address=:8443
# Off: an API server cannot call a process of this machine by the name of a Service. What the webhooks would refuse is in
# the status. With true, ARGS has to have --webhook-cert-dir.
ENABLE_WEBHOOKS ?= false

.PHONY: run
run: build ## Run the manager here against the current kubeconfig, with ENABLE_WEBHOOKS=false. ARGS= are its flags.
	POD_NAMESPACE=$${POD_NAMESPACE:-app-operator-system} ENABLE_WEBHOOKS=$(ENABLE_WEBHOOKS) exec bin/manager $(ARGS)

BUILD_ARGS = --build-arg VERSION=v$(VERSION) --build-arg COMMIT=$(COMMIT) $(TOOLCHAIN_ARG)
# What is published is built with the Go that builds the SBOM, and not with the latest patch of the builder's image.
docker-buildx: TOOLCHAIN_ARG = --build-arg TOOLCHAIN=$(shell go env GOVERSION)

.PHONY: docker-build
docker-build: ## Build the image IMG with CONTAINER_TOOL (docker, podman or buildah).
	$(CONTAINER_TOOL) build $(BUILD_FLAGS) $(BUILD_ARGS) -t $(IMG) -f Dockerfile .

.PHONY: docker-push
docker-push: ## Push the image IMG.
	$(CONTAINER_TOOL) push $(PUSH_FLAGS) $(IMG)

# buildx IMAGE,DOCKERFILE,FOLDER,FLAGS: builds an image of the folder for all of PLATFORMS and pushes it as one.
# BUILDPLATFORM by hand: older buildahs (1.28, for one) do not set it.
ifeq ($(notdir $(CONTAINER_TOOL)),docker)
define buildx
	$(CONTAINER_TOOL) buildx inspect app-operator-builder >/dev/null 2>&1 || $(CONTAINER_TOOL) buildx create --name app-operator-builder
	$(CONTAINER_TOOL) buildx build $(BUILD_FLAGS) --builder app-operator-builder --push --platform $(PLATFORMS) \
		$(4) -t $(1) -f $(2) $(3)
endef
else
define buildx
	$(CONTAINER_TOOL) manifest rm $(1) >/dev/null 2>&1 || true # a list of before would only grow
	$(CONTAINER_TOOL) build $(BUILD_FLAGS) --platform $(PLATFORMS) --manifest $(1) \
		$(4) --build-arg BUILDPLATFORM=linux/$$(go env GOHOSTARCH) -f $(2) $(3)
	$(CONTAINER_TOOL) manifest push --all $(PUSH_FLAGS) $(1) docker://$(1)
endef
endif

.PHONY: docker-buildx
docker-buildx: ## Build IMG for all of PLATFORMS and push it as one.
	$(call buildx,$(IMG),Dockerfile,.,$(BUILD_ARGS))

.PHONY: build-installer
build-installer: manifests bin/kustomize ## Write all that deploy applies into one file, dist/install.yaml. COMPONENTS= as for deploy.
	mkdir -p dist
	hack/render.sh $(IMG) $(COMPONENTS) > dist/install.yaml

# What is deployed by helm, of the same source. CHART= is where to.
CHART ?= dist/chart/app-operator
.PHONY: chart
chart: bin/kustomize bin/helm ## Write the Helm chart of VERSION with IMG into dist/chart/app-operator, and check it.
	hack/remove-generated.sh '$(CHART)' Chart.yaml 'name: app-operator'
	go run ./hack/helmchart -version $(VERSION) -image $(IMG) '$(CHART)'
	bin/helm lint --strict '$(CHART)'

##@ Deployment

.PHONY: install
install: manifests bin/kustomize ## Put the CRDs into the current cluster.
	bin/kustomize build config/crd | $(APPLY)

.PHONY: delete-resources
delete-resources: ## Delete every resource of the operator, and wait until their children are gone. NAMESPACE=, TIMEOUT= (seconds).
	@KUBECTL="$(KUBECTL)" NAMESPACE=$(NAMESPACE) TIMEOUT=$(TIMEOUT) hack/delete-resources.sh

# The resources go first: the garbage collector may never look at the children of a kind that has no definition any more.
.PHONY: uninstall
uninstall: override NAMESPACE =
uninstall: delete-resources bin/kustomize ## Remove every object of the operator's kinds, wait for their children, then remove the CRDs.
	bin/kustomize build config/crd | $(DELETE)

.PHONY: deploy
deploy: manifests bin/kustomize ## Put CRDs, RBAC and the manager, with the image IMG, into the current cluster. COMPONENTS= of config/components, too.
	hack/render.sh $(IMG) $(COMPONENTS) | $(APPLY)

# The resources and the CRDs go first: while the manager lives, it can still clean up behind its objects.
.PHONY: undeploy
undeploy: uninstall ## Remove all that deploy put there, COMPONENTS= included, after every object of the operator's kinds.
	hack/render.sh $(IMG) $(COMPONENTS) | $(DELETE)

.PHONY: undeploy-keep
undeploy-keep: bin/kustomize ## Remove the operator alone, COMPONENTS= included: the namespace, the CRDs and all resources stay, and pods keep running.
	hack/render.sh $(IMG) $(COMPONENTS) | hack/without.sh kinds Namespace CustomResourceDefinition | $(DELETE)

.PHONY: prune
prune: bin/kustomize ## After deploy with other COMPONENTS=: remove what is left of the components before, which FROM= names.
	$(if $(filter undefined,$(origin FROM)),$(error FROM= has to name the components of the deployment before, or none))
	mkdir -p dist
	hack/render.sh $(IMG) $(COMPONENTS) > dist/deployed.yaml
	hack/render.sh $(IMG) $(FROM) | hack/without.sh objects dist/deployed.yaml | $(DELETE)

##@ OLM

# Where bundle and catalog go, and where their images are built from: the bundle is in the tree, the catalog is not.
bundle bundle-test bundle-build: OUT ?= .
catalog catalog-build catalog-buildx: OUT ?= dist/catalog

.PHONY: bundle
bundle: manifests bin/kustomize bin/operator-sdk ## Make the OLM bundle of VERSION for CHANNELS, with IMG by tag; by digest with USE_IMAGE_DIGESTS=true, once IMG is pushed. OUT= is where to.
	@VERSION='$(VERSION)' IMG='$(IMG)' CHANNELS='$(CHANNELS)' DEFAULT_CHANNEL='$(DEFAULT_CHANNEL)' OUT='$(OUT)' \
		USE_IMAGE_DIGESTS='$(USE_IMAGE_DIGESTS)' hack/bundle.sh

.PHONY: bundle-test
bundle-test: ## Test the bundle in OUT, such as one with images by digest.
	BUNDLE='$(abspath $(OUT))' go test -vet=off -count=1 ./test/bundle

.PHONY: bundle-build
bundle-build: ## Build the bundle's image BUNDLE_IMG, of the bundle in OUT.
	cd $(OUT) && $(CONTAINER_TOOL) build $(BUILD_FLAGS) -t $(BUNDLE_IMG) -f bundle.Dockerfile .

.PHONY: bundle-push
bundle-push: ## Push the image BUNDLE_IMG.
	$(CONTAINER_TOOL) push $(PUSH_FLAGS) $(BUNDLE_IMG)

.PHONY: catalog
catalog: bin/opm bin/crane ## Render CATALOG_TEMPLATE into dist/catalog (OUT=), of the bundle in the tree alone; of all that are pushed with CATALOG_FROM=registry.
	@BUNDLE_REPOSITORY='$(IMAGE_TAG_BASE)-bundle' CATALOG_TEMPLATE='$(CATALOG_TEMPLATE)' CATALOG_FROM='$(CATALOG_FROM)' \
		OUT='$(OUT)' hack/catalog.sh

.PHONY: catalog-build
catalog-build: ## Build the catalog's image CATALOG_IMG, of the catalog in dist/catalog (OUT=).
	cd $(OUT) && $(CONTAINER_TOOL) build $(BUILD_FLAGS) -t $(CATALOG_IMG) -f catalog.Dockerfile .

.PHONY: catalog-push
catalog-push: ## Push the image CATALOG_IMG.
	$(CONTAINER_TOOL) push $(PUSH_FLAGS) $(CATALOG_IMG)

.PHONY: catalog-buildx
catalog-buildx: ## Build CATALOG_IMG, of the catalog in dist/catalog (OUT=), for all of PLATFORMS and push it as one.
	$(call buildx,$(CATALOG_IMG),$(OUT)/catalog.Dockerfile,$(OUT))

.PHONY: catalog-follow
catalog-follow: bin/crane ## Move the tag that clusters follow, CATALOG_FOLLOWED_IMG, to the pushed CATALOG_IMG, unless versions would be left without an upgrade (CATALOG_LEAVE=).
	@case '$(VERSION)' in *-*) echo 'catalog-follow: $(VERSION) is a prerelease, which no cluster is to follow' >&2; exit 1 ;; esac
	@NEW='$(CATALOG_IMG)' FOLLOWED='$(CATALOG_FOLLOWED_IMG)' LEAVE='$(CATALOG_LEAVE)' hack/catalog-follow.sh

.PHONY: scorecard-build
scorecard-build: ## Build SCORECARD_IMG, the scorecard's stage of our own.
	$(CONTAINER_TOOL) build $(BUILD_FLAGS) -t $(SCORECARD_IMG) -f test/scorecard/Dockerfile .

.PHONY: scorecard-push
scorecard-push: ## Push the image SCORECARD_IMG.
	$(CONTAINER_TOOL) push $(PUSH_FLAGS) $(SCORECARD_IMG)

.PHONY: scorecard-buildx
scorecard-buildx: ## Build SCORECARD_IMG for all of PLATFORMS and push it as one.
	$(call buildx,$(SCORECARD_IMG),test/scorecard/Dockerfile,.)

##@ Release

# RELEASE.md has the order; .github/workflows/release.yml calls them.
.PHONY: release-check
# What of it: tree needs no registry, images needs one, and a login where it is private.
RELEASE_CHECK ?= tree images
# The version whose images may exist already: for a release that has failed halfway.
RELEASE_REPAIR ?=
release-check: $(if $(filter images,$(RELEASE_CHECK)),bin/crane) ## Check that HEAD can be released as VERSION: its tags, CHANGELOG.md, the catalog, an unchanged tree, no images yet.
	@VERSION='$(VERSION)' IMAGES='$(IMG) $(BUNDLE_IMG) $(CATALOG_IMG)' FOLLOWED='$(CATALOG_FOLLOWED_IMG)' \
		SCORECARD='$(SCORECARD_IMG)' RELEASE_REPAIR='$(RELEASE_REPAIR)' hack/release-check.sh $(RELEASE_CHECK)

# By crane: its file, ~/.docker/config.json, is read by docker, podman, buildah, operator-sdk and opm as well. A login by podman or buildah is in
# another file, which crane does not always read and operator-sdk never.
.PHONY: registry-login
registry-login: bin/crane ## Log in to the registry of IMAGE_TAG_BASE as REGISTRY_USER, with REGISTRY_PASSWORD from the environment.
	@: "$${REGISTRY_USER:?is not set}" "$${REGISTRY_PASSWORD:?is not set}"; printenv REGISTRY_PASSWORD | \
		bin/crane auth login --username "$$REGISTRY_USER" --password-stdin $(firstword $(subst /, ,$(IMAGE_TAG_BASE)))

# Not empty if VERSION is a prerelease, such as 0.3.0-rc.1.
PRERELEASE = $(findstring -,$(VERSION))

# digest IMAGE: sets the variable digest of the shell. A command of its own, as -e does not notice a failure in an argument.
digest = digest="$$(bin/crane digest $(1))"; [ -n "$$digest" ] || { echo "release-files: the registry has no digest of $(1)" >&2; exit 1; }

# By digest: the tag of an image can be moved. A prerelease moves no tag that clusters follow.
.PHONY: release-files
release-files: bin/crane bin/helm sbom ## Write the files of a release into dist, once its images are pushed: manifests, chart, SBOM, digests, checksums.
	for image in $(IMG) $(BUNDLE_IMG) $(CATALOG_IMG); do $(call digest,$$image); echo "$$image@$$digest"; done > dist/images.txt
	$(if $(PRERELEASE),,$(call digest,$(CATALOG_IMG)); echo "$(CATALOG_FOLLOWED_IMG)@$$digest" >> dist/images.txt)
	$(call digest,$(IMG)); $(MAKE) --no-print-directory build-installer chart IMG="$(IMAGE_TAG_BASE)@$$digest"
	bin/helm package '$(CHART)' --destination dist
	cd dist && sha256sum install.yaml app-operator-$(VERSION).tgz sbom.cdx.json sbom-viewer.cdx.json images.txt > SHA256SUMS

# Before anything is pushed: without the right to create a release nothing of it is public. A draft of a run that failed is used again; a published release
# is never changed.
.PHONY: release-draft
release-draft: ## Create the draft of the release v$(VERSION) with the section of CHANGELOG.md, by gh (GH_TOKEN).
	mkdir -p dist
	awk -v heading='## [$(VERSION)]' '/^## \[/ {on = index($$0, heading) == 1; next} on' CHANGELOG.md > dist/notes.md
	@said="$$(gh release view v$(VERSION) --json isDraft --jq .isDraft 2>&1)" || true; \
	case "$$said" in \
	true) echo 'release-draft: v$(VERSION) has a draft already, which is used' ;; \
	false) echo 'release-draft: v$(VERSION) is published: raise VERSION' >&2; exit 1 ;; \
	*'release not found'*) set -x; \
		gh release create v$(VERSION) --draft $(if $(PRERELEASE),--prerelease )--verify-tag --title v$(VERSION) --notes-file dist/notes.md ;; \
	*) echo "release-draft: whether v$(VERSION) is published is not known: $$said" >&2; exit 1 ;; \
	esac

.PHONY: release-publish
release-publish: ## Add the files of release-files to the draft of release-draft, and publish it, by gh (GH_TOKEN).
	gh release upload v$(VERSION) --clobber \
		dist/install.yaml dist/app-operator-$(VERSION).tgz dist/sbom.cdx.json dist/sbom-viewer.cdx.json dist/images.txt dist/SHA256SUMS
	gh release edit v$(VERSION) --draft=false

##@ Tools

TOOLS = controller-gen kustomize golangci-lint crd-ref-docs operator-sdk opm crane cyclonedx-gomod actionlint promtool helm kube-score

# What a tool is built with in addition to its module. Both would otherwise ask for cgo and a C library (gpgme), and operator-sdk
# writes its own version into what it generates.
SDK_VERSION = $(shell sed -n 's|.*operator-framework/operator-sdk \(v[^ ]*\).*|\1|p' hack/tools/operator-sdk/go.mod)
TOOLFLAGS_operator-sdk = -tags containers_image_openpgp \
	-ldflags '-X github.com/operator-framework/operator-sdk/internal/version.Version=$(SDK_VERSION)'
TOOLFLAGS_opm = -tags containers_image_openpgp
# Without the clients of all clouds in which Prometheus finds its targets.
TOOLFLAGS_promtool = -tags remove_all_sd
# The Kubernetes that helm renders for without a cluster; without them it is 1.20.
TOOLFLAGS_helm = -ldflags '-X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=36'

# The rules of accessibility, for the tests alone. It is neither committed nor part of what is built: its licence is the MPL.
AXE = axe-core@4.14.1
AXE_SUM = 29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c
bin/axe.min.js: bin/$(AXE).tgz
	@tar -xzOf $< package/axe.min.js > $@.new && echo '$(AXE_SUM)  $@.new' | sha256sum --check --quiet && mv $@.new $@ || { rm -f $< $@.new; exit 1; }
bin/$(AXE).tgz:
	@mkdir -p bin && cd bin && npm pack --loglevel=error $(AXE) >/dev/null && mv $(subst @,-,$(AXE)).tgz $(AXE).tgz

.PHONY: tools
tools: $(TOOLS:%=bin/%) $(CLIENT_GENERATORS:%=bin/%) ## Build all tools into bin/.

# One module, as they are versions of one another.
$(CLIENT_GENERATORS:%=bin/%) &: hack/tools/code-generator/go.mod hack/tools/code-generator/go.sum
	@echo "building $(CLIENT_GENERATORS:%=bin/%) (once a version)"
	@mkdir -p bin && cd hack/tools/code-generator && go build -buildvcs=false -o ../../../bin/ tool
	@touch $(CLIENT_GENERATORS:%=bin/%)

# Its module has code of its own: it takes a linter of another module in.
bin/golangci-lint: hack/tools/golangci-lint/main.go

# Its module has a module in the place of another one.
bin/operator-sdk: hack/tools/operator-sdk/noansible/go.mod hack/tools/operator-sdk/noansible/pkg/plugins/ansible/v1/plugin.go

$(TOOLS:%=bin/%) bin/traefik: bin/%: hack/tools/%/go.mod hack/tools/%/go.sum
	@echo "building $@ (once a version)"
	@cd hack/tools/$* && go build -buildvcs=false $(TOOLFLAGS_$*) -o ../../../$@ tool
	@touch $@
