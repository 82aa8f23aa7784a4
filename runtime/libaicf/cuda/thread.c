#include "thread.h"

_Thread_local thread here;
