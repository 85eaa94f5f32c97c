#!/usr/bin/env bash
# Does a newcomer's machine suffice? A bare Debian with Python, make and git gets a fresh clone of HEAD and runs
# `make demo` and `make test` as an ordinary user. The Debian is cached between runs, the clone never is.
# What reaching the package indexes takes on this machine is handed over for the length of a run and stored nowhere.
set -euo pipefail
cd "$(dirname "$0")/.."

release=${RELEASE:-bookworm}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/outrider/clean-room
room=$cache/$release
guest=/srv/guest
certificates=/etc/ssl/certs/ca-certificates.crt

refuse() {
  printf 'error: %s\nhint: %s\n' "$1" "$2" >&2
  exit 1
}

leave() {
  for mounted in dev/pts dev/shm proc; do
    if mountpoint --quiet "$room/$mounted"; then
      umount --lazy "$room/$mounted"
    fi
  done
}

check_the_machine() {
  [ "$(id -u)" -eq 0 ] || refuse 'a clean room needs root, to build and enter another root folder' 'run `sudo make clean-room`'
  git rev-parse --quiet --verify HEAD >/dev/null || refuse 'there is no commit to clone' 'commit first'
  [ -z "$(git status --porcelain)" ] || echo 'note: changes that are not committed stay outside' >&2
  command -v debootstrap >/dev/null && return
  command -v apt-get >/dev/null || refuse '`debootstrap` is missing' 'install it, or run this on Debian or Ubuntu'
  apt-get install --yes --quiet=2 debootstrap >/dev/null || refuse '`debootstrap` cannot be installed' 'run `apt-get update` and try again'
}

build_the_room() {
  [ -f "$room/.complete-with-chromium" ] && return
  echo "building a bare Debian $release in $room"
  rm -rf --one-file-system "$room"
  mkdir -p "$cache"
  mirror=$(apt-get indextargets --format '$(REPO_URI)' "Codename: $release" 2>/dev/null | head -n 1)
  debootstrap --variant=minbase --include=python3,python3-venv,make,git,ca-certificates,chromium,fonts-dejavu-core \
    "$release" "$room" ${mirror:+"$mirror"} >"$cache/$release.log" 2>&1 ||
    refuse "debootstrap failed" "read $cache/$release.log"
  chroot "$room" useradd --create-home --home-dir "$guest" --shell /bin/bash guest
  touch "$room/.complete-with-chromium"
}

enter_the_room() {
  mount -t proc proc "$room/proc" || refuse 'mounting is not allowed here' 'run this outside of the container'
  mkdir -p "$room/dev/shm"
  mount -t tmpfs -o mode=1777 tmpfs "$room/dev/shm"
  mkdir -p "$room/dev/pts"
  mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts "$room/dev/pts"
  ln -sf pts/ptmx "$room/dev/ptmx"
  for file in /etc/resolv.conf /etc/hosts "$certificates"; do
    if [ -f "$file" ]; then
      cp --dereference "$file" "$room$file"
    fi
  done
  find "$room$guest" -mindepth 1 -delete
  git clone --quiet --no-hardlinks . "$room$guest/outrider"
  chroot "$room" chown -R guest:guest "$guest"
}

settings() {
  printf '%s\n' "HOME=$guest" LANG=C.UTF-8 PATH=/usr/local/bin:/usr/bin:/bin \
    "PIP_CERT=$certificates" "SSL_CERT_FILE=$certificates" "NODE_EXTRA_CA_CERTS=$certificates"
  env | grep -E '^(PIP_INDEX_URL|PIP_TRUSTED_HOST|PIP_DEFAULT_TIMEOUT|npm_config_registry|(https?|no)_proxy|(HTTPS?|NO)_PROXY)=' || true
  if [ -z "${PIP_INDEX_URL:-}" ] && index=$(python3 -m pip config get global.index-url 2>/dev/null); then
    echo "PIP_INDEX_URL=$index"
  fi
}

timed() {
  echo "clean room: make $1"
  started=$SECONDS
  status=0
  mapfile -t variables < <(settings)
  chroot --userspec=guest:guest "$room" env -i "${variables[@]}" \
    make --no-print-directory -C "$guest/outrider" "$1" </dev/null || status=$?
  report+=("$(printf 'make %-6s %5ss  %s' "$1" "$((SECONDS - started))" "$([ "$status" -eq 0 ] && echo ok || echo failed)")")
  [ "$status" -eq 0 ] || failed=1
}

report=()
failed=0
trap leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
check_the_machine
build_the_room
enter_the_room
for target in ${TARGETS:-demo test}; do
  timed "$target"
done
printf '%s\n' "clean room: $(git rev-parse --short HEAD), $(chroot "$room" python3 --version), Debian $release" "${report[@]}"
exit "$failed"
