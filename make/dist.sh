#!/bin/sh
# dist.sh GEN: dist/aicf-VERSION.tar.gz with the tree as git has it and what opgen wrote, so that
# `make OPGEN=` builds it without libyaml. The same tree gives the same bytes.
set -e
gen=$1
version=$(git describe --tags --always --dirty 2>/dev/null || echo unknown)
name=aicf-$version
out=dist/$name.tar.gz
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p dist "$work/$name"
if git rev-parse --git-dir >/dev/null 2>&1; then
    git ls-files -z
else
    find . -type f ! -path "./$gen/*" ! -path './build*' ! -path './dist/*' ! -path './.venv/*' -print0
fi | tar --null --ignore-failed-read -T - -cf - | tar -C "$work/$name" -xf -
mkdir -p "$work/$name/generated"
tar -C "$gen" --exclude .lock -cf - . | tar -C "$work/$name/generated" -xf -
: >"$work/$name/generated/from-tarball"
tar -C "$work" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u+rw,go+r,go-w -cf - \
    "$name" | gzip -9n >"$out.new"
mv -f "$out.new" "$out"
echo "$out"
