#!/bin/sh
# py_ft.sh FOLDER: a free-threaded Python 3.13, from Debian's source package, in FOLDER/plain and, with
# the thread sanitizer, in FOLDER/tsan. Needs no root, and no network once FOLDER/source has the package.
# Run again, it looks and does nothing.
#
# Debian's own archive is asked, through apt with a state of its own: apt checks the signature of the
# release, by that the index of sources, and by that what is unpacked here. FROM is the archive, JOBS how
# many compilers run at once, CC which; all can be set from outside.
set -e
package=python3.13
version=3.13.5-2+deb13u5
suite=trixie
keys=/usr/share/keyrings/debian-archive-keyring.gpg

mkdir -p "$1"
folder=$(cd "$1" && pwd)
source=$folder/source
tree=$source/$package-${version%-*}
CC=${CC:-gcc}

say() {
    printf '  %-8s %s\n' "$1" "$2"
}

fault() {
    echo "error: $*" >&2
    exit 1
}

has_header() {
    echo "#include <$1>" | "$CC" -E -x c - >/dev/null 2>&1
}

require() {
    missing=
    for tool in apt-get dpkg-source make "$CC"; do
        command -v "$tool" >/dev/null 2>&1 || missing="$missing $tool"
    done
    [ ! "$missing" ] || fault "not found:$missing: install apt dpkg-dev make gcc, on Debian or Ubuntu"
    [ -r $keys ] || fault "$keys is not there: apt install debian-archive-keyring"
    has_header zlib.h || missing="$missing zlib1g-dev"
    has_header ffi.h || missing="$missing libffi-dev"
    [ ! "$missing" ] || fault "headers are missing: apt install$missing"
    echo 'int main(void) { return 0; }' >"$folder/probe.c"
    "$CC" -fsanitize=thread "$folder/probe.c" -o "$folder/probe" 2>/dev/null ||
        fault "$CC has no thread sanitizer: install libtsan, or set CC"
    rm -f "$folder/probe.c" "$folder/probe"
}

# The archive that this machine's apt takes Debian from.
archive() {
    found=${FROM:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' |
        grep -v security | head -n 1)}
    [ "$found" ] || fault "apt on this machine knows no archive of Debian's: set FROM to the URI of one"
    echo "$found"
}

fetch() {
    [ ! -d "$tree" ] || return 0
    from=$(archive)
    say APT "$package $version, source"
    state=$folder/apt
    mkdir -p "$state/lists/partial" "$state/archives/partial" "$source"
    echo "deb-src [signed-by=$keys] $from $suite main" >"$state/sources.list"
    cat >"$state/apt.conf" <<EOF
Dir::State::lists "$state/lists";
Dir::Cache::archives "$state/archives";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Dir::Etc::SourceList "$state/sources.list";
Dir::Etc::SourceParts "-";
Dir::Etc::PreferencesParts "-";
APT::Sandbox::User "root";
Acquire::Languages "none";
EOF
    (
        export APT_CONFIG="$state/apt.conf"
        apt-get -qq update || fault "apt-get update failed: is there a network?"
        cd "$source"
        apt-get -qq source --only-source "$package=$version" >"$state/source.out" 2>&1 || {
            tail -n 3 "$state/source.out" >&2
            has=$(apt-cache showsrc $package | sed -n 's/^Version: //p' | tr '\n' ' ')
            fault "$suite has no $package $version but ${has:-none}: pin another in tools/py_ft.sh"
        }
    )
    [ -d "$tree" ] || fault "$package $version did not unpack to $tree"
}

# build NAME OPTION... -- MAKE-WORD...: Debian's patches keep configure's LDFLAGS from make, which
# therefore get them again. Files are compiled by the plain one: the sanitizer takes minutes for it.
build() {
    name=$1
    shift
    options=
    while [ "$1" != -- ]; do
        options="$options $1"
        shift
    done
    shift
    made="$version $("$CC" --version | head -n 1)$options"
    [ "$(cat "$folder/$name/made" 2>/dev/null)" != "$made" ] || return 0
    say PYTHON "$name, in $folder/$name"
    rm -rf "$folder/$name" "$folder/object-$name"
    mkdir -p "$folder/object-$name"
    (
        # shellcheck disable=SC2086 # options are words
        cd "$folder/object-$name" &&
            "$tree/configure" --prefix="$folder/$name" --disable-gil --disable-test-modules \
                --without-ensurepip CC="$CC" $options &&
            make -j"${JOBS:-2}" "$@" &&
            make install COMPILEALL_OPTS="-x ." "$@" &&
            "$folder/plain/bin/python3.13t" -m compileall -q -j "${JOBS:-2}" "$folder/$name/lib"
    ) >"$folder/$name.out" 2>&1 || {
        tail -n 20 "$folder/$name.out" >&2
        fault "the $name build failed: $folder/$name.out has all of it"
    }
    rm -rf "$folder/object-$name"
    echo "$made" >"$folder/$name/made"
}

require
fetch
build plain --
build tsan --with-thread-sanitizer -- LDFLAGS=-fsanitize=thread
