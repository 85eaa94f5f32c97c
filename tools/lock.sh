#!/bin/sh
# Resolve pyproject.toml and its dev group into requirements.lock: versions and hashes for every platform and every
# supported Python, no URLs. Pins that still fit are kept; UPGRADE=1 takes the newest instead. The resolver lives in a
# throw-away environment, so that neither it nor a lock of its own stays behind.
set -eu
cd "$(dirname "$0")/.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

"${PYTHON:-python3}" -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install -qq --disable-pip-version-check uv
cp pyproject.toml "$scratch/"
if [ -f requirements.lock ]; then
  grep -v '^#' requirements.lock >"$scratch/requirements.lock"
fi
(
  cd "$scratch"
  "$scratch/venv/bin/uv" pip compile pyproject.toml --group dev ${UPGRADE:+--upgrade} \
    --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --no-config \
    --no-python-downloads --quiet --output-file requirements.lock
)
{
  echo '# Made by `make lock` from pyproject.toml: change that, not this.'
  cat "$scratch/requirements.lock"
} >"$scratch/finished"
cp "$scratch/finished" requirements.lock
echo "requirements.lock: $(grep -c '==' requirements.lock) packages"
