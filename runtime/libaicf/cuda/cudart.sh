#!/bin/sh
# One CUDA runtime for all modules, inside libaicf. The symbols of libcudart_static.a are hidden, so a
# version script alone exports none: those of calls.txt are renamed rt_* in a copy of the archive, and
# one-jump trampolines stand under the old names, with the version AICF_1.
#
#   cudart.sh include NVCC...                     the toolkit's include folder
#   cudart.sh archive NVCC...                     its libcudart_static.a
#   cudart.sh make OUT CALLS CC OBJCOPY NVCC...   OUT.a (the copy), OUT.s, OUT.o (the trampolines), and
#                                                 OUT.names, for objects that call the copy themselves
set -eu

# nvcc says where its toolkit lies; the folders below that differ between packagings.
find_file() {
    file=$1
    shift
    top=$("$@" --dryrun -c x.cu 2>&1 | sed -n 's/^#\$ TOP=//p')
    for folder in include targets/x86_64-linux/include lib64 lib targets/x86_64-linux/lib; do
        for root in "$top" "${CUDA_HOME:-$top}"; do
            if [ -e "$root/$folder/$file" ]; then
                (cd "$root/$folder" && pwd)
                return
            fi
        done
    done
    echo "error: $file is not found beside $*: the CUDA toolkit is not complete, set CUDA_HOME" >&2
    return 1
}

trampolines() {
    awk 'BEGIN {print ".text"}
        {t = "trampoline_" $1
         printf ".globl %s\n.type %s,@function\n%s: jmp rt_%s\n.size %s,.-%s\n", t, t, t, $1, t, t
         printf ".symver %s,%s@@@AICF_1\n", t, $1}
        END {print ".section .note.GNU-stack,\"\",@progbits"}'
}

make_runtime() {
    out=$1 calls=$2 cc=$3 objcopy=$4
    shift 4
    archive=$(find_file libcudart_static.a "$@")/libcudart_static.a
    nm --defined-only "$archive" 2>/dev/null | awk '{print $3}' | sort -u >"$out.has"
    grep -v '^#' "$calls" | sort -u | comm -12 - "$out.has" >"$out.calls"
    awk '{print $1 " rt_" $1}' "$out.calls" >"$out.names"
    trampolines <"$out.calls" >"$out.s"
    $cc -c "$out.s" -o "$out.o"
    $objcopy --redefine-syms="$out.names" "$archive" "$out.a.new"
    mv -f "$out.a.new" "$out.a"
    rm -f "$out.has"
}

what=$1
shift
case $what in
include) find_file cuda_runtime_api.h "$@" ;;
archive) echo "$(find_file libcudart_static.a "$@")/libcudart_static.a" ;;
make) LC_ALL=C make_runtime "$@" ;;
*) echo "error: cudart.sh include|archive|make" >&2 && exit 1 ;;
esac
