#!/bin/sh
# profile.sh OP B PYTHON TABLE: prints the command that profiles the kernels of OP on a GPU. They are named by
# namespace (aicf::add::vec4), and its GPU tests call all of them.
op=$1 b=$2 python=$3 table=$4
[ "$op" ] || {
    echo "error: say which op, as in: make profile OP=add" >&2
    exit 1
}
grep -Eq "\b(op|family) *: *$op\b|^ *$op *: *\{ *doc\b" "$table" || {
    echo "error: $table has no op $op" >&2
    exit 1
}
cat <<END
ncu --set full --import-source yes --kernel-name-base demangled --kernel-name 'regex:aicf::$op::' \\
    --target-processes all --export $b/profile-$op \\
    env PYTHONPATH=$b/python $python -m pytest -m gpu -k $op tests
END
