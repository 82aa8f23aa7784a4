#!/bin/sh
# What make asks about generated/, and how it is written.

# seen GEN INPUT...: what the generator's work depends on, as one line: its inputs, a checksum over them,
# and each file that it wrote and is gone, as in its stamp GEN/.opgen.
seen() {
    gen=$1
    shift
    echo "$@" "$(cat "$@" 2>/dev/null | cksum)"
    [ -e "$gen/files.mk" ] || echo "gone:files.mk"
    [ -e "$gen/.opgen" ] || echo "gone:.opgen"
    sed -n 's/^[^ ]* [0-9]* //p' "$gen/.opgen" 2>/dev/null | while read -r file; do
        [ -e "$gen/$file" ] || echo "gone:$file"
    done
}

# run GEN SEEN COMMAND...: runs the generator, for one build at a time, then writes the list of its files
# into GEN/files.mk if that changed, and SEEN into GEN/made. Builds with different B share one generated/.
run() {
    gen=$1 text=$2
    shift 2
    mkdir -p "$gen"
    if command -v flock >/dev/null 2>&1; then
        flock "$gen/.lock" "$@" || exit
    else
        "$@" || exit
    fi
    sed -n 's/^[^ ]* [0-9]* /# /p' "$gen/.opgen" >"$gen/files.$$"
    if cmp -s "$gen/files.$$" "$gen/files.mk"; then
        rm -f "$gen/files.$$"
    else
        mv -f "$gen/files.$$" "$gen/files.mk"
    fi
    printf '%s\n' "$text" >"$gen/made.$$" && mv -f "$gen/made.$$" "$gen/made"
}

"$@"
