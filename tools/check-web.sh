#!/usr/bin/env bash
# Check the scripts and styles of the page: types, lint and form, and the tests of the modules that need no browser.
# The tools are those of tests/third_party/package-lock.json, run by the Node that pyright's wheel brings.
set -euo pipefail
cd "$(dirname "$0")/.."

PATH=$PWD/.servers/bin:$PWD/.servers/node_modules/.bin:$PATH
modules=server/web/static tests=tests/web/js

for tool in node tsc biome; do
  [ -x ".servers/bin/$tool" ] || [ -x ".servers/node_modules/.bin/$tool" ] || {
    printf 'error: the scripts of the page cannot be checked: `%s` is missing in `.servers`\n' "$tool" >&2
    printf 'hint: run `make servers`, after removing `.servers/.installed` if that changes nothing\n' >&2
    exit 1
  }
done

tsc --project tsconfig.json
biome check --error-on-warnings --no-errors-on-unmatched "$modules" "$tests"
node --disable-warning=MODULE_TYPELESS_PACKAGE_JSON --test --test-reporter=dot "$tests/**/*.test.js"
