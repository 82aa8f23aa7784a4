/* For launcher headers and kernel sources: C linkage, and launchers that may be missing. */
#ifndef AICF_KERNEL_H
#define AICF_KERNEL_H

#include <aicf/call.h>

#ifdef __cplusplus
#define AICF_BEGIN extern "C" {
#define AICF_END }
#else
#define AICF_BEGIN
#define AICF_END
#endif

#define AICF_LOCAL __attribute__((visibility("hidden")))

/* Weak: its address is NULL in a module that was linked without the backend's objects. */
#define AICF_LAUNCHER __attribute__((weak, visibility("hidden"))) aicf_status

/* CPU kernels are compiled for the baseline and for x86-64-v3; the loader picks. Put before a
   function whose loops are worth it; what it calls must be inlined into it. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define AICF_CLONES __attribute__((target_clones("default", "arch=x86-64-v3")))
#else
#define AICF_CLONES
#endif

#endif
