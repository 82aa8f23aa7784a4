#!/bin/sh
# rest.sh CALLS OBJECTS...: C for those calls of the list that no object defines: they record
# themselves and return cudaErrorNotSupported.
set -eu
export LC_ALL=C
calls=$1
shift
have=$(nm --defined-only "$@" | awk 'NF == 3 {print $3}' | sort -u)
echo '#include "shim.h"'
grep -v '^#' "$calls" | sort -u | while read -r call; do
    case "
$have
" in
    *"
$call
"*) ;;
    *)
        echo "int $call(void);"
        echo "int $call(void) { return shim_leave(801, \"$call\", \"unknown=1\"); }"
        ;;
    esac
done
