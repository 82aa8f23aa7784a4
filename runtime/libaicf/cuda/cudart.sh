#!/bin/sh
# One CUDA runtime for all modules, inside libaicf. The symbols of libcudart_static.a are hidden, so a
# version script alone exports none: those of calls.txt are renamed rt_* in a copy of the archive, and
# one-jump trampolines stand under the old names, with the version AICF_1. A call that is marked `noted`
# jumps to noted_* of launch.c, which reaches the copy as native_*. One that is not marked tells
# repeat.c first that it is made.
#
#   cudart.sh include NVCC...                     the toolkit's include folder
#   cudart.sh archive NVCC...                     its libcudart_static.a
#   cudart.sh make OUT CALLS CC OBJCOPY NVCC...   OUT.a (the copy), OUT.s, OUT.o (the trampolines), and
#                                                 OUT.names, for objects that call the copy themselves
set -eu

# nvcc says where its toolkit lies, but for Debian's, which lies in /usr; the folders below that differ
# between packagings.
find_file() {
    file=$1
    shift
    top=$("$@" --dryrun -c x.cu 2>&1 | sed -n 's/^#\$ TOP=//p')
    top=${top:-/usr}
    for folder in include targets/x86_64-linux/include lib64 lib targets/x86_64-linux/lib \
        lib/x86_64-linux-gnu; do
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
        function jump(from, to) {
            printf ".globl %s\n.type %s,@function\n%s: jmp %s\n", from, from, from, to
            printf ".size %s,.-%s\n", from, from
        }
        # The arguments are as they were, and the stack is aligned for what is called.
        function tell(    registers, i, n) {
            n = split("rdi rsi rdx rcx r8 r9", registers)
            print "tell: sub $8, %rsp"
            for (i = 1; i <= n; i++) print "push %" registers[i]
            print "call learning_spoil"
            for (i = n; i >= 1; i--) print "pop %" registers[i]
            print "add $8, %rsp\nret\n.hidden learning_spoil"
        }
        NR == 1 {tell()}
        {t = "trampoline_" $1
         if ($2) jump(t, ($2 == "noted" ? "noted_" : "rt_") $1)
         else printf ".globl %s\n.type %s,@function\n%s: call tell\njmp rt_%s\n.size %s,.-%s\n", t, t, t, $1, t, t
         printf ".symver %s,%s@@@AICF_1\n", t, $1}
        $2 == "noted" {jump("native_" $1, "rt_" $1); print ".hidden native_" $1}
        END {print ".section .note.GNU-stack,\"\",@progbits"}'
}

make_runtime() {
    out=$1 calls=$2 cc=$3 objcopy=$4
    shift 4
    archive=$(find_file libcudart_static.a "$@")/libcudart_static.a
    nm --defined-only "$archive" 2>/dev/null | awk '{print $3}' | sort -u >"$out.has"
    grep -v '^#' "$calls" | sort -u | join - "$out.has" >"$out.jumps"
    awk '{print $1}' "$out.jumps" >"$out.calls"
    awk '{print $1 " rt_" $1}' "$out.calls" >"$out.names"
    trampolines <"$out.jumps" >"$out.s"
    $cc -c "$out.s" -o "$out.o"
    $objcopy --redefine-syms="$out.names" "$archive" "$out.a.new"
    mv -f "$out.a.new" "$out.a"
    rm -f "$out.has" "$out.jumps"
}

what=$1
shift
case $what in
include) find_file cuda_runtime_api.h "$@" ;;
archive) echo "$(find_file libcudart_static.a "$@")/libcudart_static.a" ;;
make) LC_ALL=C make_runtime "$@" ;;
*) echo "error: cudart.sh include|archive|make" >&2 && exit 1 ;;
esac
