# The shop's chores. `make` alone lists them. What is more than three lines of shell is a script in .ci/.
.DEFAULT_GOAL := help
SHELL := /bin/bash
GO ?= go
export GO
# The systems for which the repository has files. No file depends on a processor.
PLATFORMS := linux/amd64 darwin/arm64 windows/amd64

.PHONY: help run build quick quickly check checked beside test tested nightly promises race raced seeds simulate exercises starters embedded latency race faults cluster short borders format vet lint timing words columns flakes licences fuzz requests bench growth speed costs statements pages baseline shots

help: ## list the chores
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

run: ## open the shop on its own Postgres and Redis
	$(GO) run .

build: ## build ./miaosha
	$(GO) build -trimpath -o miaosha .

# Four tiers. Each says at its end how many minutes it took, and how many of a processor.
quick: ## before a commit: borders, format, words, timing, and vet, staticcheck and the tests of the packages that changed (90 s)
	@.ci/timed quick $(MAKE) --no-print-directory quickly

quickly: borders format words columns timing
	@.ci/quick

test: ## all tests
	@.ci/timed test $(MAKE) --no-print-directory tested

check: ## everything a change must pass; .ci/run calls it
	@.ci/timed check $(MAKE) --no-print-directory checked

nightly: ## what takes hours: waiting times, the race detector, all faults and mutants, the promises of SECURITY.md, the cluster, the lab's programs, the pages
	@.ci/timed nightly .ci/each latency race faults promises cluster exercises starters costs statements pages

# The data of tests lie in memory where there is room for them.
quickly checked tested race raced embedded latency requests short faults promises cluster flakes: export TMPDIR := $(or $(TMPDIR),$(shell .ci/memory),/tmp)

# Each step compiles and vets only what no other step does. vet has all of go vet, so the tests do without their part of it, and
# without what a debugger needs: linking is a third faster. Fuzzing, random requests, seeds and the Redis inside the process have a
# short form here; the target alone has the long one. Waiting times are not a part of it: see latency.
checked: export GOFLAGS += -vet=off -ldflags=-w
checked: export scripts = . ./seckill/gate ./user
checked: export purchases = TestTwoVisitorsWantTheLastUnit
checked: export fuzzed = 3s
checked: export slowest =
checked: export sent = 60000
checked: export each = 500
checked: borders format test beside

# Requests and the Redis inside the process wait half of their time, so what only computes runs beside them, and so do the raced
# tests, which say what happened and not how fast. The faults have bounds of a second on what the shop needs to be well again, so
# nothing runs beside them.
computed = vet lint fuzz seeds raced
proved = requests embedded
beside:
	@.ci/beside "$(computed)" "$(proved)" short

tested:
	@.ci/one-run .ci/tests

# The domains and the rush, of which SECURITY.md says that check watches them. Compiling all of the others once more with the
# detector takes as long as the tests.
parts = $(addprefix ./seckill/,address alive news queue rebuild warm watch)
raced: ## the domains, the rush, its gate and its parts under the race detector
	.ci/one-run $(GO) test -race ./goods ./order ./user ./seckill ./seckill/gate $(parts)

race: ## the tests that run our code in their own process, under the race detector (ten minutes)
	.ci/race

seeds: ## 3,000 seeds of the simulation of the protocol
	@.ci/seeds

simulate: export MIAOSHA_SIM_SECONDS ?= 600
simulate: ## seeds for MIAOSHA_SIM_SECONDS (600), from MIAOSHA_SIM_FIRST on, and the mutants that they must find
	$(GO) test -count 1 -timeout 0 -v -run '^TestSimulation$$' ./seckill
	MIAOSHA_SIM_MUTANTS=1 $(GO) test -count 1 -timeout 60m -v -run '^TestSimulationFindsMutants$$' ./seckill

exercises: export MIAOSHA_LAB_SEEDS ?= 50
exercises: ## each program of the lab, each solution of an exercise with 50 seeds, each wrong program with 20, and programs that attack the judge
	$(GO) test -count 1 -timeout 0 -v -run '^Test(ProgramVerdicts|ExerciseVerdicts|TheJudgeIsNotBribed|NoProgramPassesWithoutTheTask|ProgramsThatServeNobodyAreFound)$$' ./seckill/lab/exercises

starters: export MIAOSHA_LAB_SEEDS ?= 20
starters: ## the shops in other languages: each wrong one, and each repaired one under kill, with 20 seeds
	$(GO) test -count 1 -timeout 0 -v -run '^TestStartersAreJudged$$' ./seckill/operator

embedded: export MIAOSHA_TEST_REDIS = embedded
embedded: ## the tests of scripts and of the sandbox, on the Redis inside the process
	@.ci/one-run .ci/embedded

# Figures, each beside a baseline that is measured in the same run. They depend on the machine, so check does without them.
latency: ## waiting times beside their baselines, alone on the machine
	$(GO) test -tags latency -count 1 -p 1 -parallel 1 -v -run '^TestLatency' $$(.ci/tagged latency)

faults: ## break every process and connection, and prove that the suite would notice (forty minutes; writes seckill/faults/RESULTS.md)
	$(GO) test -tags faults -timeout 90m -v ./seckill/failpoint ./seckill/faults

promises: ## break each promise of SECURITY.md, and prove that the test which it names fails (an hour)
	MIAOSHA_PROMISES=1 $(GO) test -tags faults -count 1 -timeout 0 -v -run '^TestPromises$$' ./seckill/faults

cluster: ## 30,000 buyers behind nginx, on a Redis Cluster and a Postgres with a standby, while all of it is killed in turn
	MIAOSHA_CLUSTER=1 $(GO) test -tags faults -count 1 -timeout 15m -v -run '^TestCluster$$' ./seckill/faults

short: ## the faults of two minutes
	@.ci/short

bench: ## the figures: purchases, refusals, results and lists beside a bare handler, and each part alone (five minutes)
	@.ci/bench figures
	@echo; $(MAKE) --no-print-directory speed

speed: ## each part alone, for benchstat
	$(GO) test -run '^$$' -bench . -benchtime 2s ./seckill ./user ./web

growth: ## capacity with empty tables, beside 200 other sales, and beside a million old users and orders (four minutes)
	@.ci/bench growth

borders: ## imports are those of the table in .ci/borders, and no test code is in the binary
	@$(GO) run ./seckill/checks/borders

format: ## gofmt
	@.ci/format

# The tags faults and latency change few packages, but all that import them would be compiled with them once more.
tagged = $$(.ci/tagged 'faults|latency')

vet: ## go vet, go mod verify
	$(GO) vet ./...
	$(GO) vet -tags faults,latency $(tagged)
	$(GO) mod verify

# Both tools need much memory for a short time: with the usual limit a third of their processor time is the collector's.
lint: export GOGC = 400
lint: words columns timing ## staticcheck; words and forms of tests that must not come back; code that nothing reaches, and type errors, on every system
	$(GO) tool staticcheck ./...
	$(GO) tool staticcheck -tags faults,latency $(tagged)
	@.ci/deadcode $(PLATFORMS)

timing: ## no test says how fast something happened, or listens on a fixed port
	@$(GO) run ./seckill/checks/timing

columns: ## no line of Go is longer than 120 columns
	@$(GO) run ./seckill/checks/columns

words: ## comments, documents and pages without the words that .ci/words, .ci/words.zh and .ci/words.pages replace
	@.ci/replaced

# Each test n times in all, a third of them with each GOMAXPROCS of procs; with whole=1 in n runs of all packages, as make test does.
# run, skip and pkgs choose tests, minutes is a bound, seed repeats an order, and busy=0 lets the machine alone.
flakes: ## every test 20 times in random order beside busy loops, and a table of those that fail (n=, run=, pkgs=, minutes=, whole=1)
	@$(GO) run ./seckill/checks/flakes $(foreach f,n pkgs run skip procs busy seed minutes dir whole,$(if $($(f)),-$(f)='$($(f))'))

licences: ## write LICENSES.md: the modules in the binary and their licences (a test checks that it is current)
	$(GO) test -count 1 -run '^TestLicencesAreCurrent$$' ./seckill/operator -args -write-licences

fuzz: ## ten seconds for each fuzz target, two at a time
	@.ci/fuzz

# The tests of web send 4,000 of them. The time is a bound: a slow machine sends fewer.
sent ?= 200000
requests: export MIAOSHA_REQUESTS ?= $(sent)
requests: export MIAOSHA_REQUESTS_SECONDS ?= 90
requests: ## 200,000 valid, nearly valid and wild requests to every route, in 90 seconds at most
	$(GO) test -count 1 -v -run '^TestRandomRequests$$' ./web

# A figure of the machine, so no bound of CI: what the same requests make the shop do is bounded by TestTheWorkOfEveryRouteIsBounded.
rows ?= 100000
costs: ## what the worst known request of each route takes of a processor, and how much of a core one address can take (ten minutes, on Linux)
	@set -o pipefail; MIAOSHA_COSTS=$(rows) $(GO) test -count 1 -timeout 60m -v -run '^TestCosts$$' ./web | grep -E '^(\||---|FAIL|ok| )'

# On a disk: ten million orders are 8 GB with their indexes. check has 20,000 and 200,000.
orders ?= 1000000,10000000
statements: ## what each statement of the shop reads of a million orders, and that it reads no more of ten million (half an hour)
	MIAOSHA_ORDERS=$(orders) $(GO) test -count 1 -timeout 0 -v -run '^TestNoStatementReadsMoreOfALargerShop$$' ./web

runs ?= 5
pages: export RUNS := $(runs)
pages: export ONLY := $(only)
pages: export LEAST := $(or $(least),98)
pages: baseline ## Lighthouse and axe on every page, with Node and Chromium (an hour; runs=1: fifteen minutes, runs=0: axe alone, only=home,lab)
	.ci/pages pages.mjs

baseline: ## no script or style of a page is newer than the oldest browsers, and every page opens in Chromium 92 (a minute)
	.ci/pages lint newer
	git diff --exit-code web/testdata/newer.txt
	.ci/pages old.mjs

shots: ## take the pictures of the READMEs
	.ci/pages shots.mjs
