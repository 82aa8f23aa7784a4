#!/bin/sh
# bare_root.sh SUITE FOLDER [GOAL...]: the README's commands in a bare Debian (bookworm, trixie), by default
# demo and test. As root, with debootstrap. FOLDER/SUITE.bare is a minimal root with git alone, made once;
# FOLDER/SUITE is a copy of it, made anew each time, with two clones of what this checkout has committed.
# First a plain user without sudo must be told what is missing, in one line; then each of WHO runs each
# goal, and all must work: the first installs the packages. Prints what each said last, and how long it
# took. A root that debootstrap needs more words for, as Ubuntu's, can be put at FOLDER/SUITE.bare by hand.
#   WHO      root, guest (the plain user) and sudoer, who may use sudo; by default root and guest
#   MIRROR   where packages come from     BARE_FILES   files of this machine that the root gets, such as
#   BARE_ENV names of variables to keep                a pip.conf and a bundle of certificates
set -eu
usage="usage: $0 SUITE FOLDER [GOAL...]"
suite=${1:?$usage}
mkdir -p "${2:?$usage}"
folder=$(cd "$2" && pwd)
shift 2
[ $# -gt 0 ] || set -- demo test
source=$(cd "$(dirname "$0")/.." && pwd)
bare=$folder/$suite.bare
root=$folder/$suite
who=${WHO:-root guest}
failed=0

make_root() {
    if ! [ -e "$bare/etc/debian_version" ]; then
        rm -rf "$bare.new"
        debootstrap --variant=minbase --include=git,ca-certificates "$suite" "$bare.new" \
            "${MIRROR:-http://deb.debian.org/debian}" >"$folder/$suite.debootstrap" 2>&1
        mv "$bare.new" "$bare"
    fi
    # Mounts are seen by the commands in the root alone, so none can be left to be deleted through.
    rm -rf "$root"
    cp -a "$bare" "$root"
    for file in ${BARE_FILES:-}; do
        mkdir -p "$root$(dirname "$file")"
        cp -Lr "$file" "$root$file"
    done
    git clone --quiet --no-hardlinks "$source" "$root/root/aicf"
    for user in guest sudoer; do
        chroot "$root" useradd --create-home "$user"
        git clone --quiet --no-hardlinks "$source" "$root/home/$user/aicf"
        chroot "$root" chown -R "$user:" "/home/$user"
    done
    case " $who " in
    *" sudoer "*) give_sudo >"$folder/$suite.sudo" 2>&1 ;;
    esac
}

give_sudo() {
    chroot "$root" apt-get -qq update
    chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends sudo
    echo 'sudoer ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/sudoer"
}

# in_root USER COMMAND...: in that user's clone, with an environment that has next to nothing.
in_root() {
    user=$1
    shift
    kept=
    for name in ${BARE_ENV:-}; do
        kept="$kept $name=$(printenv "$name" || true)"
    done
    home=$(chroot "$root" sh -c "echo ~$user")
    unshare --mount --pid --fork sh -c '
        mount -t proc proc "$1/proc" && mount -t tmpfs tmpfs "$1/dev/shm" && shift && exec "$@"' \
        mounts "$root" chroot --userspec="$user:$user" "$root" env -i HOME="$home" USER="$user" \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin $kept \
        sh -c 'cd ~/aicf && exec "$@"' sh "$@"
}

# attempt USER GOAL: keeps what it says in a file, shows the end of it, and counts a failure.
attempt() {
    log=$folder/$suite-$1-$2.log
    start=$(date +%s)
    status=0
    in_root "$1" sh tools/run.sh "$2" >"$log" 2>&1 </dev/null || status=$?
    seconds=$(($(date +%s) - start))
    tail -n 20 "$log" | sed 's/^/    /'
    echo "$suite $1 $2: status $status, $seconds s"
}

must_refuse() {
    attempt guest "$1"
    [ "$status" = 1 ] && [ "$(wc -l <"$log")" = 1 ] && grep -q '^error: missing: .*gcc.*make' "$log" || {
        echo "FAILED: one line was due that names the missing packages"
        failed=1
    }
}

make_root
must_refuse "$1"
for user in $who; do
    for goal in "$@"; do
        attempt "$user" "$goal"
        [ "$status" = 0 ] || failed=1
    done
done
exit $failed
