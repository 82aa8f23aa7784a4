#!/bin/sh
# What the build asks of the machine: sh build.sh QUESTION ARGUMENTS. A fault is one line on stderr that
# starts with `error:` and says what to do, and exit status 1.

fault() {
    echo "error: $*" >&2
    exit 1
}

# The package that brings $1 on Debian and on Fedora.
install() {
    echo "apt install $1, or dnf install $2"
}

# cc COMMAND...: is it there, does it compile C11?
ask_cc() {
    command -v "$1" >/dev/null 2>&1 ||
        fault "no C compiler: $1 is not found: $(install gcc gcc), or set CC"
    echo 'int x;' | "$@" -std=c11 -x c -fsyntax-only - >/dev/null 2>&1 ||
        fault "$* does not compile C11: $(install 'gcc libc6-dev' gcc), or set CC"
}

# header FILE DEBIAN FEDORA COMMAND...: does the command find the header?
ask_header() {
    header=$1 debian=$2 fedora=$3
    shift 3
    echo "#include <$header>" | "$@" -x c -fsyntax-only - >/dev/null 2>&1 ||
        fault "$header is not found: $(install "$debian" "$fedora")$HINT"
}

# python COMMAND...: the suffix of extension modules, the options of their ABI, Python's include folder.
# abi3 where the interpreter has it. A free-threaded one loads files of that name too, but there is no
# stable ABI for it: modules are built for that interpreter alone.
ask_python() {
    command -v "$1" >/dev/null 2>&1 ||
        fault "$1 is not found: $(install python3-dev python3-devel), or set PYTHON"
    "$@" -S -c '
import _imp, sys, sysconfig
if sys.version_info < (3, 11):
    sys.exit("error: Python 3.11 or newer is needed, %s is %s: set PYTHON" % (sys.argv[1], sys.version.split()[0]))
abi3 = ".abi3.so" in _imp.extension_suffixes() and not sysconfig.get_config_var("Py_GIL_DISABLED")
suffix = ".abi3.so" if abi3 else sysconfig.get_config_var("EXT_SUFFIX")
print(suffix, "-DPy_LIMITED_API=0x030b0000" if abi3 else "-UPy_LIMITED_API", sysconfig.get_paths()["include"])
' "$1"
}

# packed COMMAND...: the option that packs relative relocations, where the C library's loader reads them
# so: glibc from 2.36 on. A linker that does not know it says so and leaves them.
ask_packed() {
    libc=$("$@" -print-file-name=libc.so.6 2>/dev/null) && grep -q GLIBC_ABI_DT_RELR "$libc" 2>/dev/null &&
        echo -Wl,-z,pack-relative-relocs
    return 0
}

# library HEADER NVCC PYTHON...: the option by which nvcc finds the header of a library: none where it is
# in the toolkit, else a folder of Python's wheels (pip install nvidia-cublas). `missing`: there is none.
# Behind the toolkit's own folder, since wheels bring other headers too.
ask_library() {
    header=$1 nvcc=$(command -v "$2") || nvcc=$2
    shift 2
    top=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
    said=$("$nvcc" --dryrun --ptx x.cu 2>&1 | sed -n 's/^#\$ TOP=//p')
    for folder in "${said:-$top}/include" "$top/targets/x86_64-linux/include" /usr/include; do
        [ ! -f "$folder/$header" ] || return 0
    done
    "$@" -c 'import sys; print("\n".join(sys.path))' 2>/dev/null | while read -r wheels; do
        for found in "$wheels"/nvidia/*/include/"$header"; do
            if [ -f "$found" ]; then
                echo "'-isystem=${found%/*}'"
                exit
            fi
        done
    done | grep . || echo missing
}

# most_gcc NUMBER TOP: the newest gcc that a toolkit takes, as its own header says, else as is known.
most_gcc() {
    most=
    for folder in ${2:+include targets/x86_64-linux/include}; do
        [ "$most" ] ||
            most=$(sed -n 's/^#if __GNUC__ > \([0-9]*\)$/\1/p' "$2/$folder/crt/host_config.h" 2>/dev/null)
    done
    if [ "$most" ]; then
        echo "$most"
    elif [ "$1" -lt 1208 ]; then
        echo 13
    elif [ "$1" -lt 1300 ]; then
        echo 14
    elif [ "$1" -lt 1304 ]; then
        echo 15
    else
        echo 16
    fi
}

# nvcc CCBIN COMMAND...: is the toolkit one that we know to work, and does it take the host compiler?
# Its own message names one version only.
ask_nvcc() {
    host=${1:-g++}
    shift
    command -v "$1" >/dev/null 2>&1 || fault "$1 is not found: set NVCC or CUDA_HOME, or CUDA=0"
    toolkit=$("$@" --version | sed -n 's/.*release \([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
    [ "$toolkit" ] || fault "$* --version names no release: set NVCC, or build without (CUDA=0)"
    major=${toolkit% *} minor=${toolkit#* }
    number=$((major * 100 + minor))
    [ $number -ge 1204 ] || fault "CUDA 12.4 or newer is needed, $* is $major.$minor: set NVCC or CUDA_HOME"
    # nvcc looks first where its profile says: Debian's has a g++ there that picks one it takes.
    said=$("$@" --dryrun --ptx x.cu 2>&1)
    path=$(echo "$said" | sed -n 's/^#\$ PATH=//p')
    top=$(echo "$said" | sed -n 's/^#\$ TOP=//p')
    found=$(PATH=${path:+$path:}$PATH && command -v "$host") ||
        fault "nvcc needs a C++ compiler, $host is not found: $(install g++ gcc-c++), or set CCBIN"
    case $("$found" --version 2>/dev/null) in
    *clang*) return ;; # nvcc's own check of clang names both versions
    esac
    gcc=$("$found" -dumpversion 2>/dev/null) && [ "$gcc" ] ||
        fault "$found, the C++ compiler of nvcc $major.$minor, says no version: set CCBIN to a g++"
    gcc=${gcc%%.*}
    most=$(most_gcc "$number" "${path:+${top:-/usr}}")
    [ "$gcc" -le "$most" ] ||
        fault "CUDA $major.$minor takes gcc up to $most, $host is $gcc: install g++-$most and set CCBIN=g++-$most"
}

# archs COMMAND... -- ENTRY...: does nvcc know every entry?
ask_archs() {
    command=
    while [ "$1" != -- ]; do
        command="$command $1"
        shift
    done
    shift
    known=$($command --list-gpu-arch | sed 's/compute_//' | tr '\n' ' ')
    for entry; do
        number=${entry#compute_}
        number=${number#sm_}
        number=${number%[af]}
        case " $known" in
        *" $number "*) ;;
        *) fault "CUDA_ARCHS: nvcc does not know $entry, it knows $known" ;;
        esac
    done
}

# release COMMAND...: CUDA_ARCHS with all that nvcc knows from 75 on, the variants of one arch, and PTX of
# the newest.
ask_release() {
    command -v "$1" >/dev/null 2>&1 || fault "$1 is not found: set NVCC or CUDA_HOME"
    numbers=$("$@" --list-gpu-arch | sed -n 's/^compute_\([0-9]*\)$/\1/p' | sort -n | awk '$1 >= 75')
    for number in $numbers; do
        printf '%s ' "$number"
        [ "$number" -lt 90 ] || printf '%sa ' "$number"
    done
    echo "compute_$number"
}

# gencode WANTED ENTRY...: nvcc's options for a kernel that asks for the arch WANTED (sm_80: all from
# 80 up; sm_90a: that alone; any). An entry like 90a serves other kernels only where 90 is not there.
ask_gencode() {
    wanted=${1#sm_}
    shift
    [ $# -gt 0 ] || fault "CUDA_ARCHS is empty: name at least one, as in CUDA_ARCHS=90"
    entries=" $(echo " $*" | sed 's/ sm_/ /g') "
    options=
    for entry in $entries; do
        number=${entry#compute_}
        [ "$number" != "$entry" ] || number=${entry%[af]}
        case $number in
        [1-9][0-9] | [1-9][0-9][0-9]) ;;
        *) fault "CUDA_ARCHS: $entry is no arch: 90 is code for it, compute_90 is PTX, 90a is for kernels that ask for it" ;;
        esac
        case $wanted in
        any) ;;
        *[af]) [ "$entry" = "$wanted" ] || continue ;;
        *) [ "$number" -ge "$wanted" ] || continue ;;
        esac
        case $entry in
        compute_*) code=$entry ;;
        *[af])
            code=sm_$entry
            case $entries in
            *" $number "*) [ "$entry" = "$wanted" ] || continue ;;
            esac
            ;;
        *) code=sm_$entry ;;
        esac
        options="$options -gencode=arch=compute_${entry#compute_},code=$code"
    done
    echo $options
}

# wgmma COMMAND...: compiles for an arch with instructions of its own. What ptxas only notes, that wgmma
# waits for itself (it then has half of its speed), is a fault: C7510, C7511, C7515, C7520 and what else is
# said in those words.
ask_wgmma() {
    said=$("$@" 2>&1)
    status=$?
    [ -z "$said" ] || printf '%s\n' "$said" >&2
    [ $status = 0 ] || exit $status
    case $said in
    *'wgmma.mma_async instructions are serialized'* | *'(C7510)'* | *'(C7511)'* | *'(C7515)'*)
        fault "wgmma is serialised, as noted above: keep calls and uses of its registers out of its way"
        ;;
    esac
}

# prune B WORD...: removes from B what the list of outputs had at the last build and has no more. The words:
# package=, suffix=, op=, file=, as in rules.mk.
ask_prune() {
    b=$1
    shift
    old=$(cat "$b/flags/outputs" 2>/dev/null) || return 0
    now=" $* "
    package=${old#*package=}
    package=${package%% *}
    suffix=${old#*suffix=}
    suffix=${suffix%% *}
    for word in $old; do
        case $now in
        *" $word "*) continue ;;
        esac
        name=${word#*=}
        case $word in
        op=*)
            rm -rf "$b/kernels/$name"
            rm -f "$b/ops/${name}_op.o"* "$b/ops/new-${name}_op.o"* "$b/modules/$name.o"* \
                "$b/modules/new-$name.o"* "$b/flags/link.$name" "$b/python/$package/$name$suffix" \
                "$b/ops/${name}_code.o" "$b/ops/new-${name}_code.o" "$b/flags/code.$name"
            ;;
        file=*) rm -f "$b/python/$package/$name" ;;
        package=*) rm -rf "$b/python/$name" ;;
        suffix=*) rm -f "$b/python/$package"/*"$name" ;;
        esac
    done
}

# prune_names FOLDER FILE NAME...: removes from FOLDER what FILE lists and the names do not.
ask_prune_names() {
    folder=$1
    old=$(cat "$2" 2>/dev/null) || return 0
    shift 2
    now=" $* "
    for name in $old; do
        case $now in
        *" $name "*) ;;
        *) rm -f "$folder/$name" ;;
        esac
    done
}

question=$1
shift
"ask_$question" "$@"
