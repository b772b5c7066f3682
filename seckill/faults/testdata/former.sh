#!/usr/bin/env bash
# Writes former.tar.xz: the sources of a former version of the shop, of which the fault suite builds a process that runs beside
# one of this version. It is the last one whose journal has a consumer group, and has the same schema. Comments are left
# out, and of the pages and the lab's texts all but the first paragraphs, for which a start looks. Run it in a clone with the whole
# history.
set -euo pipefail
commit=c40b7e4
cd "$(git rev-parse --show-toplevel)"
to=$(realpath "${1:-seckill/faults/testdata/former.tar.xz}")
files=$(git ls-tree -r --name-only $commit | grep -E '^(main\.go|schema\.sql|go\.(mod|sum)|(user|goods|order|seckill|web)/)' |
  grep -vE '_test\.go$|_windows\.go$|\.md$|\.png$|/testdata/|^seckill/(faults|checks|sandbox/sandboxtest)/|^web/pages/')
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# shellcheck disable=SC2086
git archive $commit $files | tar -x -C "$dir"
cd "$dir"
find web/static seckill/lab -type f ! -name '*.go' ! -name '*.sql' ! -name page.html -exec sed -i -n "/intro': '/p" {} +
find . -name '*.go' -exec sed -i -E '/^\s*\/\/( |$)/d' {} +
tar -c --format=ustar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX . | xz -9e >"$to"
