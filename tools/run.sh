#!/bin/sh
# run.sh GOAL...: `make GOAL...` on a machine that may not have make yet. What is missing is installed first:
# for the demo alone, less of Python's packages.
cd "$(dirname "$0")/.." || exit 1
only=
[ "$*" != demo ] || only=demo
sh tools/bootstrap.sh $only || exit 1
exec make -j"$(nproc 2>/dev/null || echo 2)" "$@"
