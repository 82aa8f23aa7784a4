/* The CPU: host memory, the calling thread. Part of libaicf. */
#ifndef AICF_BACKEND_CPU_H
#define AICF_BACKEND_CPU_H

#include <aicf/backend.h>

extern const aicf_backend aicf_backend_cpu;

#endif
