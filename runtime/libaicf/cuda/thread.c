#include "thread.h"

_Alignas(64) _Thread_local thread here; /* in one line of the cache */

_Static_assert(sizeof here <= 64, "a line");
