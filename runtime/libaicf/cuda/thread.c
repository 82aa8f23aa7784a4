#include "thread.h"

_Alignas(64) _Thread_local thread here; /* in one line of the cache */

_Static_assert(offsetof(thread, failed.grid) <= 64, "what each launch looks at, in that line");
