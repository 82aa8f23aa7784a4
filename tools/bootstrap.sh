#!/bin/sh
# bootstrap.sh [demo]: installs what a build and its tests need and what is not there: compilers of C and
# C++, make, libyaml, Python's headers (by apt, as root or with sudo; elsewhere it names them), and .venv
# with the pinned packages. Run again, it looks and does nothing. torch, jax and cupy are never installed.
set -e
cd "$(dirname "$0")/.."
base=${BOOTSTRAP_PYTHON:-python3}
wanted=requirements.txt
[ "$1" != demo ] || wanted=requirements-demo.txt

say() {
    printf '  %-8s %s\n' "$1" "$2"
}

has_header() {
    echo "#include <$1>" | ${CC:-gcc} $2 -E -x c - >/dev/null 2>&1
}

python_is_new() {
    command -v "$base" >/dev/null 2>&1 && "$base" -c 'import sys; sys.exit(sys.version_info < (3, 11))'
}

python_include() {
    "$base" -c 'import sysconfig; print("-I" + sysconfig.get_paths()["include"])' 2>/dev/null
}

missing_packages() {
    command -v "${CC:-gcc}" >/dev/null 2>&1 && has_header stdio.h "" || echo gcc libc6-dev
    command -v make >/dev/null 2>&1 || echo make
    has_header yaml.h "" || echo libyaml-dev
    command -v "$base" >/dev/null 2>&1 || echo python3
    has_header Python.h "$(python_include)" || echo python3-dev
    # venv is there, but Debian keeps what it needs in a package of its own.
    "$base" -c 'import venv, ensurepip' >/dev/null 2>&1 || echo python3-venv
    # A build needs it for CUDA alone; tests compile the headers as C++.
    command -v "${CXX:-g++}" >/dev/null 2>&1 || echo g++
}

install_packages() {
    sudo=
    [ "$(id -u)" = 0 ] || sudo=sudo
    if ! command -v apt-get >/dev/null 2>&1 || { [ "$sudo" ] && ! sudo -n true 2>/dev/null; }; then
        echo "error: missing: $*: install these (names are Debian's), then run this again" >&2
        exit 1
    fi
    say APT "$*"
    log=$(mktemp)
    {
        $sudo apt-get -qq update &&
            DEBIAN_FRONTEND=noninteractive $sudo apt-get -qq install -y --no-install-recommends "$@"
    } >"$log" 2>&1 </dev/null || {
        tail -5 "$log" >&2
        echo "error: apt-get did not install: $*" >&2
        exit 1
    }
    rm -f "$log"
}

packages=$(missing_packages | tr '\n' ' ')
# Split into words on purpose: package names.
[ -z "${packages% }" ] || install_packages $packages
python_is_new || {
    echo "error: Python 3.11 or newer is needed: set BOOTSTRAP_PYTHON" >&2
    exit 1
}

# .venv/bin has the folder's own path in its scripts: one that was moved is made again.
if ! [ -e .venv/bin/pip ] || ! .venv/bin/python -c '' >/dev/null 2>&1; then
    say VENV .venv
    rm -rf .venv
    "$base" -m venv .venv
fi
stamp=.venv/installed-$wanted
if ! cmp -s "$wanted" "$stamp"; then
    say PIP "$wanted ($(grep -c == "$wanted") packages; the first time takes a minute)"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input -r "$wanted" </dev/null
    cp "$wanted" "$stamp"
fi
