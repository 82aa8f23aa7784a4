#!/bin/sh
# Where XLA's FFI headers are: sh xla.sh PYTHON [FOLDER]. Prints the folder that has
# xla/ffi/api/c_api.h: FOLDER, or that of the jaxlib that PYTHON would import, which is not imported;
# nothing where there is none, or one that cannot say on which device a call is.
folder=$2
if [ ! "$folder" ]; then
    folder=$("$1" -c '
import importlib.util, os
spec = importlib.util.find_spec("jaxlib")
places = list(spec.submodule_search_locations or []) if spec else []
print(next((os.path.join(p, "include") for p in places), ""))
' 2>/dev/null)
fi
if grep -q XLA_FFI_DeviceOrdinal_Get "$folder/xla/ffi/api/c_api.h" 2>/dev/null; then
    echo "$folder"
fi
