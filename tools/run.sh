#!/bin/sh
# run.sh GOAL...: `make GOAL...` on a machine that may not have make yet. What is missing is installed first.
cd "$(dirname "$0")/.." || exit 1
sh tools/bootstrap.sh || exit 1
exec make -j"$(nproc 2>/dev/null || echo 2)" "$@"
