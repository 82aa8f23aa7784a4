#!/bin/sh
# clean.sh B GEN: removes both, if they are what they should be.
b=$1 gen=$2
if [ -e "$b" ] && [ ! -d "$b/flags" ]; then
    echo "error: $b is no folder of this build's making: it has no flags/" >&2
    exit 1
fi
rm -rf "$b"
if [ -e "$gen/made" ] && [ ! -e "$gen/from-tarball" ]; then
    rm -rf "$gen"
fi
