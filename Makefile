# The shop's chores. `make` alone lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
GO ?= go
# The systems for which the repository has files. No file depends on a processor.
PLATFORMS := linux/amd64 darwin/arm64 windows/amd64

.PHONY: help run build quick quickly check checked beside test tested nightly nightly-run promises race raced seeds simulate exercises starters embedded latency faults cluster short borders format vet lint timing words flakes licences fuzz requests bench growth speed costs statements pages baseline shots

help: ## list the chores
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

run: ## open the shop on its own Postgres and Redis
	$(GO) run .

build: ## build ./miaosha
	$(GO) build -trimpath -o miaosha .

# Four tiers. Each says at its end how many minutes it took, and how many of a processor.
quick: ## before a commit: borders, format, words, timing, and vet, staticcheck and the tests of the packages that changed (90 s)
	@.ci/timed quick $(MAKE) --no-print-directory quickly

quickly: borders format words timing
	@GO='$(GO)' .ci/quick

test: ## all tests
	@.ci/timed test $(MAKE) --no-print-directory tested

check: ## everything a change must pass; .ci/run calls it
	@.ci/timed check $(MAKE) --no-print-directory checked

nightly: ## what takes hours: waiting times, the race detector, all faults and mutants, the promises of SECURITY.md, the cluster, the lab's programs, the pages
	@.ci/timed nightly $(MAKE) --no-print-directory nightly-run

nightly-run:
	@failed=; for part in latency race faults promises cluster exercises starters costs statements pages; do \
	  .ci/timed $$part $(MAKE) --no-print-directory $$part || failed="$$failed $$part"; \
	done; [ -z "$$failed" ] || { echo "red:$$failed"; exit 1; }

# The data of tests lie in memory where there is room for them. On a disk, databases that are made and deleted all the time cost
# three times the processor time: ext4 passes over every inode that was deleted in the last seconds.
memory = $(shell d=/dev/shm; [ -w $$d ] && ! grep -q " $$d .*noexec" /proc/mounts && \
  [ "$$(df -Pk $$d | awk 'NR == 2 {print $$4}')" -gt 8000000 ] && echo $$d)
quickly checked tested race raced embedded latency requests short faults promises cluster flakes: export TMPDIR := $(or $(TMPDIR),$(memory),/tmp)

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

# Requests and the Redis inside the process wait half of their time, so what only computes runs beside them, at the lowest priority,
# and so do the raced tests, which say what happened and not how fast.
# The faults have bounds of a second on what the shop needs to be well again, so nothing runs beside them.
computed = vet lint fuzz seeds raced
proved = requests embedded
beside:
	@log=$$(mktemp); nice -n 19 $(MAKE) --no-print-directory -j 2 $(computed) >$$log 2>&1 & computed=$$!; \
	$(MAKE) --no-print-directory $(proved); proved=$$?; wait $$computed; computed=$$?; cat $$log; rm $$log; \
	$(MAKE) --no-print-directory short; exit $$((proved + computed + $$?))

# web takes as long as all others, which run two at a time beside it, the longest first. All packages begin with copies of one set of servers' data.
in_run = run=$$(mktemp -d) && chmod 711 $$run && trap 'rm -rf $$run' EXIT && export MIAOSHA_TEST_RUN=$$run
tested:
	@echo "$(GO) test ./web, and beside it the others"; $(in_run); \
	$(GO) test -timeout 20m ./web & web=$$!; \
	long="miaosha/seckill/lab miaosha/seckill/backend"; \
	$(GO) test -timeout 20m $$long $$($(GO) list ./... | grep -vxE "miaosha/web|$${long// /|}"); others=$$?; \
	wait $$web && exit $$others

# The domains and the rush, of which SECURITY.md says that check watches them. Compiling all of the others once more with the
# detector takes as long as the tests.
raced: ## the domains, the rush and its gate under the race detector
	@echo "$(GO) test -race the domains, the rush and its gate"; $(in_run); $(GO) test -race ./goods ./order ./user ./seckill ./seckill/gate ./seckill/queue

# The detector watches the handlers and the commands in the tests of the root, whose crowds use the same ones, and in the tests of
# web that run them in their own process. Most tests of operator and of web drive the built shop from outside, and those of sandbox
# start servers.
outside = ./web ./seckill/operator ./seckill/sandbox
inside = $$(grep -l '^package web$$' web/*_test.go | xargs grep -L '^//go:build' | xargs sed -n 's,^func \(Test[A-Za-z0-9]*\)(.*,\1,p' | paste -sd '|')
race: ## the tests that run our code in their own process, under the race detector (ten minutes)
	$(GO) test -race $$($(GO) list ./... | grep -vxE "$$($(GO) list $(outside) | paste -sd '|')")
	@tests=$(inside); [ -n "$$tests" ] || { echo "web has no test in its own process"; exit 1; }; \
	$(GO) test -race -run "^($$tests)$$" ./web

# Two processes share the seeds: ids are drawn from one source in a process, so its seeds run one after the other.
each ?= 1500
seeds: ## 3,000 seeds of the simulation of the protocol
	@run() { GOGC=400 MIAOSHA_SIM_FIRST=$$1 MIAOSHA_SIM_SEEDS=$(each) $(GO) test -count 1 -v -run '^TestSimulation$$' ./seckill; }; \
	run 1 & one=$$!; run $$(($(each) + 1)); two=$$?; wait $$one && exit $$two

simulate: export MIAOSHA_SIM_SECONDS ?= 600
simulate: ## seeds for MIAOSHA_SIM_SECONDS (600), from MIAOSHA_SIM_FIRST on, and the mutants that they must find
	$(GO) test -count 1 -timeout 0 -v -run '^TestSimulation$$' ./seckill
	MIAOSHA_SIM_MUTANTS=1 $(GO) test -count 1 -timeout 60m -v -run '^TestSimulationFindsMutants$$' ./seckill

exercises: export MIAOSHA_LAB_SEEDS ?= 50
exercises: ## each program of the lab, each solution of an exercise with 50 seeds, each wrong program with 20, and programs that attack the judge
	$(GO) test -count 1 -timeout 0 -v -run '^Test(ProgramVerdicts|ExerciseVerdicts|TheJudgeIsNotBribed|NoProgramPassesWithoutTheTask|ProgramsThatServeNobodyAreFound)$$' ./seckill/lab

starters: export MIAOSHA_LAB_SEEDS ?= 20
starters: ## the shops in other languages: each wrong one, and each repaired one under kill, with 20 seeds
	$(GO) test -count 1 -timeout 0 -v -run '^TestStartersAreJudged$$' ./seckill/operator

# Where a script runs in the Redis, or a sandbox starts it. Of web these are the purchases in a browser; of operator, the tests
# that read no document and start no student's shop or program: those use no script of ours.
purchases ?= $$(sed -n 's,^func \(Test[A-Za-z0-9]*\)(.*,\1,p' web/static_sale_test.go | paste -sd '|')
embedded: export MIAOSHA_TEST_REDIS = embedded
scripts ?= . ./seckill ./seckill/gate ./seckill/lab ./seckill/backend ./seckill/operator ./user
embedded: ## the tests of scripts and of the sandbox, on the Redis inside the process
	@tests=$(purchases); [ -n "$$tests" ] || { echo "web has no test of a purchase"; exit 1; }; \
	echo "$(GO) test the purchases of ./web, and beside it the others"; $(in_run); \
	$(GO) test -run "^($$tests)$$" ./web & web=$$!; \
	$(GO) test -skip '^Test(Starters|Mine|Grade|Documents|WrongNames|TheTwoReadmes|ReadingOrder|Licences)' $(scripts); \
	others=$$?; wait $$web && exit $$others

# Figures, each beside a baseline that is measured in the same run. They depend on the machine, so check does without them.
latency: ## waiting times beside their baselines, alone on the machine
	$(GO) test -tags latency -count 1 -p 1 -parallel 1 -v -run '^TestLatency' $$(git grep -lE '^//go:build .*latency' -- '*_test.go' | xargs -n 1 dirname | sort -u | sed 's,^,./,')

faults: ## break every process and connection, and prove that the suite would notice (forty minutes; writes seckill/faults/RESULTS.md)
	$(GO) test -tags faults -timeout 90m -v ./seckill/failpoint ./seckill/faults

promises: ## break each promise of SECURITY.md, and prove that the test which it names fails (an hour)
	MIAOSHA_PROMISES=1 $(GO) test -tags faults -count 1 -timeout 0 -v -run '^TestPromises$$' ./seckill/faults

cluster: ## 30,000 buyers behind nginx, on a Redis Cluster and a Postgres with a standby, while all of it is killed in turn
	MIAOSHA_CLUSTER=1 $(GO) test -tags faults -count 1 -timeout 15m -v -run '^TestCluster$$' ./seckill/faults

# go test shows nothing of a package that passed, so the verdict comes through a file. A result that go test remembers would not
# know a shop that has changed: the suite builds the shop itself.
short: ## the faults of two minutes
	@verdict=$$(mktemp); echo "$(GO) test the short faults"; MIAOSHA_VERDICT=$$verdict \
	$(GO) test -tags faults -short -count 1 -parallel 2 -timeout 15m ./seckill/failpoint ./seckill/faults; code=$$?; cat $$verdict; rm -f $$verdict; exit $$code

bench_in = set -e; dir=$$(mktemp -d); trap 'rm -rf $$dir' EXIT; $(GO) build -trimpath -o $$dir/miaosha .; \
	bench() { echo; $$dir/miaosha bench "$$@" 2>$$dir/progress || { cat $$dir/progress >&2; exit 1; }; };

bench: ## the figures: purchases, refusals, results and lists beside a bare handler, and each part alone (five minutes)
	@$(bench_in) export MIAOSHA_SANDBOX_REDIS=server; \
	for shape in capacity soldout polls list; do bench --shape $$shape --seconds 5 --baseline; done
	@echo; echo "The same on the Redis inside the process:"; \
	$(bench_in) MIAOSHA_SANDBOX_REDIS=embedded bench --shape capacity --seconds 5 --baseline
	@echo; $(MAKE) --no-print-directory speed

speed: ## each part alone, for benchstat
	$(GO) test -run '^$$' -bench . -benchtime 2s ./seckill ./user ./web

growth: ## capacity with empty tables, beside 200 other sales, and beside a million old users and orders (four minutes)
	@$(bench_in) bench --seconds 5 --baseline; bench --seconds 5 --baseline --sales 200
	@$(bench_in) bench --seconds 5 --baseline --fill 1000000

borders: ## imports are those of the table in .ci/borders, and no test code is in the binary
	@$(GO) run ./seckill/checks/borders

format: ## gofmt
	@bad=$$(git ls-files '*.go' | xargs gofmt -l); if [ -n "$$bad" ]; then echo "not gofmt-ed: $$bad"; exit 1; fi

# The tags faults and latency change few packages, but all that import them would be compiled with them once more.
tagged = $$(git grep -lE '^//go:build .*(faults|latency)' -- '*.go' | xargs -n 1 dirname | sort -u | sed 's,^,./,')

vet: ## go vet, go mod verify
	$(GO) vet ./...
	$(GO) vet -tags faults,latency $(tagged)
	$(GO) mod verify

# deadcode reads all source and fails on a type error, so it takes the place of a compiler for other systems. vet would first
# compile every library for each of them. Both tools need much memory for a short time: with the usual limit a third of their
# processor time is the collector's.
lint: export GOGC = 400
lint: words timing ## staticcheck; words and forms of tests that must not come back; code that nothing reaches, and type errors, on every system
	$(GO) tool staticcheck ./...
	$(GO) tool staticcheck -tags faults,latency $(tagged)
	@deadcode=$$($(GO) tool -n deadcode) || exit 1; export deadcode; \
	dead=$$({ echo linux/amd64 faults,latency; for p in $(PLATFORMS); do echo $$p none; done; } | \
	  xargs -P 2 -n 2 sh -c 'CGO_ENABLED=0 GOOS=$${0%/*} GOARCH=$${0#*/} $$deadcode -tags=$$1 -test ./...') && \
	  [ -z "$$dead" ] || { echo "$$dead"; exit 1; }

timing: ## no test says how fast something happened, or listens on a fixed port
	@$(GO) run ./seckill/checks/timing

words: ## comments and documents without the words that .ci/words and .ci/words.zh replace
	@list() { grep -v '^#' $$1 | cut -f 1 | paste -sd '|'; }; words=$$(list .ci/words); \
	found=$$(git grep -nIiP "(^|\s)(//|--|/\*|\*|#)\s.*\b($$words)\b" -- '*.go' '*.lua' '*.sql' '*.js' '*.css' Makefile ':!web/static/lib'; \
	  git grep -nIiP "\b($$words)\b" -- '*.md' ':!*.zh-CN.md' ':!LICENSES.md'; \
	  git grep -nIE "$$(list .ci/words.zh)" -- '*.md' 'web/static/*.js' web/errors.go web/fields.go web/static.go goods/demo.json); \
	[ -z "$$found" ] || { echo "$$found"; echo "These words have replacements in .ci/words and .ci/words.zh."; exit 1; }

# Each test n times in all, a third of them with each GOMAXPROCS of procs; with whole=1 in n runs of all packages, as make test does.
# run, skip and pkgs choose tests, minutes is a bound, seed repeats an order, and busy=0 lets the machine alone.
flakes: ## every test 20 times in random order beside busy loops, and a table of those that fail (n=, run=, pkgs=, minutes=, whole=1)
	@$(GO) run ./seckill/checks/flakes $(foreach f,n pkgs run skip procs busy seed minutes dir whole,$(if $($(f)),-$(f)='$($(f))'))

licences: ## write LICENSES.md: the modules in the binary and their licences (a test checks that it is current)
	$(GO) test -count 1 -run '^TestLicencesAreCurrent$$' ./seckill/operator -args -write-licences

# go test -fuzz would compile every library again, to see which of its code an input reaches. Here only the target's own package
# is instrumented, which takes a tenth of the time and tries four times as many inputs. A failed target is tried once more: at
# the end of its time the fuzzer sometimes takes its own deadline for a failure (context deadline exceeded). An input that
# really fails is kept, and fails again at once.
# Alone it keeps the slowest input of each target as a seed: look at what it has changed below testdata/fuzz.
fuzzed ?= 10s
slowest ?= yes
fuzz: ## ten seconds for each fuzz target, two at a time
	@set -e; dir=$$(mktemp -d); trap 'rm -rf $$dir' EXIT; export dir MIAOSHA_SLOWEST=$(slowest); \
	pkgs=$$(git grep -l '^func Fuzz' -- '*_test.go' | xargs -n 1 dirname | sort -u); \
	for p in $$pkgs; do \
	  $(GO) test -c -gcflags=-d=libfuzzer -o $$dir/ ./$$p; \
	  sed -n "s,^func \(Fuzz[A-Za-z0-9]*\)(.*,$$p \1,p" $$p/*_test.go >>$$dir/targets; \
	done; \
	xargs -P 2 -n 2 sh -c 'cd $$0; log=$$dir/$$1.log; for try in 1 2; do \
	  if $$dir/$${0##*/}.test -test.run NONE -test.fuzz "^$$1\$$" -test.fuzztime $(fuzzed) -test.fuzzcachedir $$dir/$$1 \
	    -test.parallel 1 >$$log 2>&1; then echo "$$0 $$1 $$(tail -n 2 $$log | head -n 1)"; exit 0; fi; \
	done; cat $$log; exit 1' <$$dir/targets

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

# The tools come from npm, in the versions of web/pages/package-lock.json, into a folder that git ignores. web/README.md has more.
runs ?= 5
pages: export RUNS := $(runs)
pages: export ONLY := $(only)
pages: export LEAST := $(or $(least),98)
pages: baseline ## Lighthouse and axe on every page, with Node and Chromium (an hour; runs=1: fifteen minutes, runs=0: axe alone, only=home,lab)
	$(call in_pages,pages.mjs)

baseline: ## no script or style of a page is newer than the oldest browsers, and every page opens in Chromium 92 (a minute)
	cd web/pages && npm ci --silent --no-audit --no-fund && npm run --silent lint && npm run --silent newer && git diff --exit-code ../testdata/newer.txt
	$(call in_pages,old.mjs)

shots: ## take the pictures of the READMEs anew
	$(call in_pages,shots.mjs)

define in_pages
	cd web/pages && npm ci --silent --no-audit --no-fund
	@set -e; dir=$$(mktemp -d); trap 'rm -rf $$dir' EXIT; $(GO) build -trimpath -o $$dir/miaosha .; \
	cd web/pages && MIAOSHA=$$dir/miaosha node $(1)
endef
