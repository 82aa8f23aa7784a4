#!/bin/sh
# profile.sh OP B PYTHON: prints the command that profiles the kernels of OP on a GPU. They are named by
# namespace (aicf::add::vec4), and its GPU tests call all of them.
op=$1 b=$2 python=$3
[ "$op" ] || {
    echo "error: say which op, as in: make profile OP=add" >&2
    exit 1
}
cat <<END
ncu --set full --import-source yes --kernel-name-base demangled --kernel-name 'regex:aicf::$op::' \\
    --target-processes all --export $b/profile-$op \\
    env PYTHONPATH=$b/python $python -m pytest -m gpu -k $op tests
END
