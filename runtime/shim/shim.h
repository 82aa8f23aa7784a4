/* SHIM: a CUDA runtime that runs nothing and records everything, for tests on machines without a
   GPU. Tests steer it by name through the library that carries it; here is what they have. */
#ifndef AICF_SHIM_H
#define AICF_SHIM_H

#include <stdbool.h>
#include <stddef.h>

/* Everything as at the start: two devices, no log, no errors, no live memory counted. What kernels
   have registered stays. */
void shim_reset(void);

/* The lines since the last reset, one a call: its name, then key=value, at the end the calling
   thread's current device and the error returned. Valid until the thread's next call of this. */
const char *shim_log(void);
/* How often a call is in the log. */
int shim_count(const char *call);

/* The next `count` calls of this name return `error` and do nothing; -1: all. */
void shim_fail(const char *call, int error, int count);
/* From now on every call of every thread returns `error`, as after an illegal access. */
void shim_break(int error);
/* Calls of this name take so long. */
void shim_delay(const char *call, double seconds);
/* While on, streams are being captured: what a capture forbids fails with 900. */
void shim_capture(bool on);

void shim_devices(int count);
void shim_arch(int arch);      /* ten times the compute capability of all devices; at first 90 */
void shim_driver(int version); /* 13000 for CUDA 13.0; 0: no driver */
int shim_device(void);         /* the calling thread's current device */
/* Devices that have a context, as bits; at first all. What needs one adds its device. */
void shim_start(unsigned devices);
unsigned shim_started(void);
/* All contexts are others from now on, as after a reset of the devices. What is launched in one
   that went aborts. */
void shim_renew(void);
int shim_live(void); /* allocations that are not freed */

/* A launch is a line of cudaLaunchKernel whichever way it goes; by=driver tells those past the
   runtime. A driver's launch that is refused is a line of cuLaunchKernel. */

/* From the environment, at the first call: AICF_SHIM_LOG names a file that lines are appended to;
   AICF_SHIM_ABORT=1 aborts at any call but the registration of kernels;
   AICF_SHIM_FAIL=CALL:ERROR,... is shim_fail(CALL, ERROR, -1). */

/* ---- for the calls -------------------------------------------------------------------------- */

#pragma GCC visibility push(hidden)

/* The error that a call shall return, or 0; waits where it shall. Nothing runs before it. */
int shim_enter(const char *call);
/* Records the call and its end; gives the error back, which the thread's last error takes on. */
int shim_leave(int error, const char *call, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same without a trace in the last error: for calls that read it, and for the driver's. */
int shim_note(int error, const char *call, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Whether an order to fail waits for a call of this name: what stands in for that call fails first,
   and leaves the order to it. */
bool shim_waits(const char *call);

typedef struct shim_state {
    int devices, arch, driver, broken;
    unsigned started;
    bool capturing;
} shim_state;

shim_state shim_now(void);
/* Of cudaSetDevice: the current device wherever nothing was pushed. */
void shim_make_current(int device);
/* The runtime needs the current device's context, which the thread then has; at first it has none.
 */
void shim_bind(void);
bool shim_bound(void);
/* The number of the current context. */
unsigned long long shim_context(void);
bool shim_push(int device);
bool shim_pop(void);
/* The thread's last error; with `take` it is none afterwards. */
int shim_last(bool take);

void *shim_allocate(size_t bytes);
bool shim_free(void *memory);
/* Whether it lies in memory that was allocated here. */
bool shim_owns(const void *memory, size_t bytes);
/* Says of memory that was allocated here that it is a pool's. */
void shim_pool(const void *memory);
bool shim_pooled(const void *memory);
/* The device that was current when it was allocated, -1 of other memory. */
int shim_device_of(const void *memory);

#pragma GCC visibility pop

#endif
