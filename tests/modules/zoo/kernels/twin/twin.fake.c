/* out = x on the fake device, whose memory is the host's, and the fake backend: it notes every
   request in a text that tests read, fails where they say, and sleeps where they say. */
#define _POSIX_C_SOURCE 200809L
#include <aicf/backend/fake.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "aicf_ops/twin.h"

#define TO_TESTS __attribute__((visibility("default"), used))

TO_TESTS char fake_log[1 << 16]; /* a line a request */
TO_TESTS char fake_fails[32];    /* the request that fails: "launch", or a whole line */
TO_TESTS char fake_sleeps[32];   /* the request that takes 300 ms */
TO_TESTS char fake_absent[64];   /* why it cannot be used; empty: it can */
TO_TESTS int fake_current;       /* the device that is current */

static int
note(const char *request, const char *format, ...)
{
    size_t at = strlen(fake_log);
    char text[128], line[192];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(line, sizeof line, "%s%s", request, text);
    snprintf(fake_log + at, sizeof fake_log - at, "%s\n", line);
    if (strcmp(fake_sleeps, request) == 0) {
        nanosleep(&(struct timespec){1, 0}, NULL);
    }
    return strcmp(fake_fails, request) == 0 || strcmp(fake_fails, line) == 0;
}

static aicf_status
status_of(int failed)
{
    return failed ? (aicf_status){.kind = AICF_BACKEND_ERROR, .native = 700} : aicf_ok();
}

static long
number_of(aicf_stream stream)
{
    return (long)(intptr_t)stream;
}

static const char *
unusable(void)
{
    return *fake_absent ? fake_absent : NULL;
}

static aicf_status
enter(aicf_device device, int32_t *previous)
{
    *previous = fake_current;
    int failed = note("enter", " %d", device.index);
    fake_current = failed ? fake_current : device.index;
    return status_of(failed);
}

static void
leave(int32_t previous)
{
    note("leave", " %d", previous);
    fake_current = previous;
}

static aicf_status
allocate(aicf_device device, aicf_stream stream, int64_t bytes, void **memory)
{
    int failed = note("allocate", " %d %ld %ld", device.index, number_of(stream), (long)bytes);
    *memory = failed ? NULL : malloc((size_t)bytes + 1);
    return status_of(failed);
}

static aicf_status
release(aicf_device device, aicf_stream stream, void *memory)
{
    free(memory);
    return status_of(note("release", " %d %ld", device.index, number_of(stream)));
}

static aicf_status
wait(aicf_device device, aicf_stream stream, aicf_stream other)
{
    return status_of(
        note("wait", " %d %ld %ld", device.index, number_of(stream), number_of(other)));
}

static aicf_status
synchronize(aicf_device device, aicf_stream stream)
{
    return status_of(note("synchronize", " %d %ld", device.index, number_of(stream)));
}

static void
error_text(int32_t native, char *text, size_t size)
{
    snprintf(text, size, "fakeErrorNumber%d: it was asked for", native);
}

/* Addresses say nothing here: tests say where the next one is; -1: nowhere. */
TO_TESTS int fake_located;

static aicf_status
locate(const void *memory, aicf_device *device)
{
    (void)memory;
    *device = fake_located < 0 ? (aicf_device){1, 0} : (aicf_device){2, fake_located};
    return aicf_ok();
}

const aicf_backend aicf_backend_fake = {
    .size = sizeof(aicf_backend),
    .version = AICF_BACKEND_VERSION,
    .name = "fake",
    .unusable = unusable,
    .enter = enter,
    .leave = leave,
    .allocate = allocate,
    .release = release,
    .wait = wait,
    .synchronize = synchronize,
    .error_text = error_text,
    .locate = locate,
};

aicf_status
zoo_fake_twin_note_f32(const float *x, float *out, int64_t A, void *workspace, aicf_stream stream)
{
    int failed = note("launch", " %d %ld", fake_current, number_of(stream));
    if (!failed) {
        memcpy(workspace, x, (size_t)(4 * A));
        memcpy(out, workspace, (size_t)(4 * A));
    }
    return status_of(failed);
}
