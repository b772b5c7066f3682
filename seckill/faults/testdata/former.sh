#!/usr/bin/env bash
# Writes former.tar.xz: the sources of a former version of the shop, of which the fault suite builds a process that runs beside
# one of this version. It is the last one with schema version 5 and a journal entry per ticket, so each change that
# deploy/README.md warns of lies between it and this version. Run it in a clone with the whole history.
set -euo pipefail
commit=f341c56
cd "$(git rev-parse --show-toplevel)"
files=$(git ls-tree -r --name-only $commit | grep -E '^(main\.go|schema\.sql|go\.(mod|sum)|(user|goods|order|seckill|web)/)' |
  grep -vE '_test\.go$|\.md$|\.png$|/testdata/|^seckill/faults/')
# shellcheck disable=SC2086
git archive --format=tar $commit $files | xz -9e >"${1:-seckill/faults/testdata/former.tar.xz}"
