# The shop's chores. `make` alone lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
GO ?= go
# The systems that files of ours are for; no file asks for a processor.
PLATFORMS := linux/amd64 darwin/arm64 windows/amd64

.PHONY: help run build test latency embedded faults short check borders format vet lint licences fuzz bench growth speed

help: ## list the chores
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

run: ## open the shop on its own Postgres and Redis
	$(GO) run .

build: ## build ./miaosha
	$(GO) build -trimpath -o miaosha .

# The package that takes longest first, so that the others run beside it.
test: ## all tests
	$(GO) test ./web ./...

latency: ## the tests of waiting times, with nothing beside them (elsewhere they allow for a busy machine)
	MIAOSHA_TEST_ALONE=1 $(GO) test -count 1 -p 1 -parallel 1 -v -run '^TestLatency' ./web ./seckill ./user

# Most tests of web drive the built shop from outside; the race detector watches it in those of the root, whose crowds go
# through the same handlers, and in web it watches the tests that run the code in their own process.
inside = $$(grep -l '^package web$$' web/*_test.go | xargs sed -n 's,^func \(Test[A-Za-z0-9]*\)(.*,\1,p' | paste -sd '|')
embedded: export MIAOSHA_TEST_REDIS = embedded
embedded: ## all tests, on the Redis inside the process, and with the race detector
	@echo "$(GO) test ./web, and beside it -race for the others"; \
	$(GO) test ./web & web=$$!; \
	$(GO) test -race $$($(GO) list ./... | grep -vx miaosha/web); others=$$?; wait $$web && exit $$others
	$(GO) test -race -run "^($(inside))$$" ./web

faults: ## kill, stop and cut everything there is, and prove that the suite would notice (ten minutes; writes seckill/faults/RESULTS.md)
	$(GO) test -tags faults -timeout 90m -v ./seckill/failpoint ./seckill/faults

short: ## the faults that take three minutes
	$(GO) test -tags faults -short -timeout 15m ./seckill/failpoint ./seckill/faults

# Each run has a folder of its own, which is gone in the end, so that nobody's sandbox has a million orders in it.
bench_in = set -e; dir=$$(mktemp -d); chmod 711 $$dir; \
	trap 'MIAOSHA_DATA_DIR=$$dir/data $$dir/miaosha reset --yes >/dev/null 2>&1; rm -rf $$dir' EXIT; \
	$(GO) build -trimpath -o $$dir/miaosha .; export MIAOSHA_DATA_DIR=$$dir/data; \
	bench() { echo; $$dir/miaosha bench "$$@" 2>$$dir/progress || { cat $$dir/progress >&2; exit 1; }; };

bench: ## the figures: purchases, refusals, results, lists beside a bare handler, and the parts alone (five minutes)
	@$(bench_in) export MIAOSHA_SANDBOX_REDIS=server; \
	for shape in capacity soldout polls list; do bench --shape $$shape --seconds 5 --yardstick; done
	@echo; echo "The same on the Redis inside the process:"; \
	$(bench_in) MIAOSHA_SANDBOX_REDIS=embedded bench --shape capacity --seconds 5 --yardstick
	@echo; $(MAKE) --no-print-directory speed

speed: ## the parts alone, for benchstat
	$(GO) test -run '^$$' -bench . -benchtime 2s ./seckill ./user ./web

# The first run of a folder finds empty tables.
growth: ## capacity with empty tables, beside 200 other sales, and beside a million old users and orders (four minutes)
	@$(bench_in) \
	bench --seconds 5 --yardstick; \
	bench --seconds 5 --yardstick --sales 200; \
	bench --seconds 5 --yardstick --fill 1000000

check: borders format vet lint latency test fuzz embedded short ## everything a change must pass

# An import that HOUSE's arrows don't have. One line each: who, and what it must not import. Failpoints are for all: they
# import nothing of ours, and a release has none.
borders: ## imports run one way, and no test code is in the binary
	@fail=0; \
	never() { \
	  pkgs=$$($(GO) list $$1) || fail=1; \
	  for p in $$pkgs; do \
	    bad=$$($(GO) list -f '{{join .Imports "\n"}}' $$p | grep -vx miaosha/seckill/failpoint | grep -E "$$2" || true); \
	    if [ -n "$$bad" ]; then echo "$$p must not import:" $$bad; fail=1; fi; \
	  done; }; \
	never "./goods ./user" '^miaosha/'; \
	never "./order" '^miaosha/(user|web|seckill)'; \
	never "./goods ./user ./order ./seckill" '^(net/http|miaosha/web)$$'; \
	never "./seckill" '^miaosha/(user|web|seckill/)'; \
	never "./seckill/failpoint" 'miaosha|net/http'; \
	never "./seckill/bench" '^miaosha/'; \
	never "./seckill/lab" '^(net/http|miaosha/web|miaosha/user|miaosha/seckill/)'; \
	never "./web" '^miaosha/seckill/'; \
	never "$$($(GO) list ./... | grep -vE '^miaosha/seckill/operator$$')" '^miaosha/seckill/lab$$'; \
	never "$$($(GO) list ./... | grep -vE '^miaosha(/web|/seckill/operator)?$$')" '^miaosha/(user|web)$$'; \
	bad=$$($(GO) list -deps -f '{{range .Imports}}{{if eq . "testing"}}{{$$.ImportPath}}{{end}}{{end}}' . | grep '^miaosha' || true); \
	if [ -n "$$bad" ]; then echo "test code is in the binary:" $$bad; fail=1; fi; \
	exit $$fail

format: ## gofmt
	@bad=$$(git ls-files '*.go' | xargs gofmt -l); if [ -n "$$bad" ]; then echo "not gofmt-ed: $$bad"; exit 1; fi

vet: ## go vet, go mod verify
	$(GO) vet ./...
	$(GO) vet -tags faults ./...
	$(GO) mod verify

# deadcode reads everything from its source and fails where a type is wrong, so it stands for a compiler on systems that
# this is not (vet would first compile every library for each of them).
lint: ## staticcheck; code that nothing reaches, and type errors, on every system the shop runs on
	$(GO) tool staticcheck -tags faults ./...
	@deadcode=$$($(GO) tool -n deadcode) || exit 1; \
	dead=$$($$deadcode -tags faults -test ./... && \
	  for p in $(PLATFORMS); do CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} $$deadcode -test ./... || exit 1; done) && [ -z "$$dead" ] || { echo "$$dead"; exit 1; }

licences: ## write LICENSES.md anew: what is in the binary, and under which licences (that it is current is one of the tests)
	$(GO) test -count 1 -run '^TestLicencesAreCurrent$$' ./seckill/operator -args -write-licences

# The go command's own -fuzz would compile every library anew to see what an input reaches in it; here it is seen in the
# target's own package only, which takes a tenth of the time and tries four times as many inputs. Once more after a failure:
# at the end of its time the fuzzer now and then takes its own deadline for one (context deadline exceeded). An input that
# really fails is kept, and fails again at once.
fuzz: ## ten seconds for each fuzz target, two at a time
	@set -e; dir=$$(mktemp -d); trap 'rm -rf $$dir' EXIT; export dir; \
	pkgs=$$(git grep -l '^func Fuzz' -- '*_test.go' | xargs -n 1 dirname | sort -u); \
	for p in $$pkgs; do \
	  $(GO) test -c -gcflags=-d=libfuzzer -o $$dir/ ./$$p; \
	  sed -n "s,^func \(Fuzz[A-Za-z0-9]*\)(.*,$$p \1,p" $$p/*_test.go >>$$dir/targets; \
	done; \
	xargs -P 2 -n 2 sh -c 'cd $$0; log=$$dir/$$1.log; for try in 1 2; do \
	  if $$dir/$${0##*/}.test -test.run NONE -test.fuzz "^$$1\$$" -test.fuzztime 10s -test.fuzzcachedir $$dir/$$1 \
	    -test.parallel 1 >$$log 2>&1; then echo "$$0 $$1 $$(tail -n 2 $$log | head -n 1)"; exit 0; fi; \
	done; cat $$log; exit 1' <$$dir/targets
