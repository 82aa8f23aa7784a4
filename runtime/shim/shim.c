#define _GNU_SOURCE
#include "shim.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ORDERS = 32, LINE = 512, PUSHED = 8 };

/* What is to happen at calls of one name. */
typedef struct order {
    char call[64];
    int error, count;
    double seconds;
} order;

typedef struct block {
    struct block *next;
    char *memory;
    size_t bytes;
    int device;
    bool pooled;
} block;

static const shim_state at_first = {.devices = 2, .arch = 90, .driver = 13000, .started = ~0U};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static shim_state state = {.devices = 2, .arch = 90, .driver = 13000, .started = ~0U};
static order orders[ORDERS];
static int order_count;
static char *lines;
static size_t used, room;
static block *blocks;
static int live;
static int file = -1;
static bool aborts;
static unsigned long long generation = 1;

static _Thread_local int current, last;
static _Thread_local bool bound;
static _Thread_local int stack[PUSHED], height; /* of contexts: the devices below the current one */

static order *
order_of(const char *call)
{
    for (int i = 0; i < order_count; i++) {
        if (!strcmp(orders[i].call, call)) {
            return &orders[i];
        }
    }
    if (order_count == ORDERS) {
        fprintf(stderr, "shim: more than %d calls are steered\n", ORDERS);
        abort();
    }
    order *o = &orders[order_count++];
    memset(o, 0, sizeof *o);
    snprintf(o->call, sizeof o->call, "%s", call);
    return o;
}

static void
read_failures(const char *text)
{
    char call[64];
    int error, length;
    while (text && sscanf(text, "%63[^:]:%d%n", call, &error, &length) == 2) {
        order *o = order_of(call);
        o->error = error;
        o->count = -1;
        text += length;
        text += *text == ',';
    }
}

static void
read_environment(void)
{
    const char *path = getenv("AICF_SHIM_LOG");
    const char *abort_text = getenv("AICF_SHIM_ABORT");
    file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
    aborts = abort_text && *abort_text == '1';
    read_failures(getenv("AICF_SHIM_FAIL"));
}

static void
begin(void)
{
    pthread_once(&once, read_environment);
    pthread_mutex_lock(&lock);
}

static void
end(void)
{
    pthread_mutex_unlock(&lock);
}

void
shim_reset(void)
{
    begin();
    state = at_first;
    order_count = 0;
    used = 0;
    if (lines) {
        *lines = '\0';
    }
    live = 0;
    end();
    current = last = height = 0;
    bound = false;
}

const char *
shim_log(void)
{
    static _Thread_local char *copy;
    begin();
    free(copy);
    copy = strdup(lines && used ? lines : "");
    end();
    return copy ? copy : "";
}

int
shim_count(const char *call)
{
    size_t length = strlen(call);
    int count = 0;
    begin();
    for (const char *line = used ? lines : NULL; line && *line;) {
        count += !strncmp(line, call, length) && line[length] == ' ';
        line = strchr(line, '\n');
        line += line != NULL;
    }
    end();
    return count;
}

void
shim_fail(const char *call, int error, int count)
{
    begin();
    order_of(call)->error = error;
    order_of(call)->count = count;
    end();
}

void
shim_delay(const char *call, double seconds)
{
    begin();
    order_of(call)->seconds = seconds;
    end();
}

void
shim_break(int error)
{
    begin();
    state.broken = error;
    end();
}

void
shim_capture(bool on)
{
    begin();
    state.capturing = on;
    end();
}

void
shim_devices(int count)
{
    begin();
    state.devices = count;
    end();
}

void
shim_arch(int arch)
{
    begin();
    state.arch = arch;
    end();
}

void
shim_driver(int version)
{
    begin();
    state.driver = version;
    end();
}

int
shim_device(void)
{
    return current;
}

int
shim_live(void)
{
    begin();
    int count = live;
    end();
    return count;
}

shim_state
shim_now(void)
{
    begin();
    shim_state now = state;
    end();
    return now;
}

void
shim_start(unsigned devices)
{
    begin();
    state.started = devices;
    end();
}

unsigned
shim_started(void)
{
    return shim_now().started;
}

void
shim_bind(void)
{
    begin();
    state.started |= 1U << current;
    end();
    bound = true;
}

unsigned long long
shim_context(void)
{
    begin();
    unsigned long long number = generation * 100 + (unsigned long long)current;
    end();
    return number;
}

void
shim_renew(void)
{
    begin();
    generation++;
    end();
}

bool
shim_bound(void)
{
    return bound || height;
}

void
shim_make_current(int device)
{
    current = device;
    shim_bind();
}

bool
shim_push(int device)
{
    if (height == PUSHED) {
        return false;
    }
    stack[height++] = current;
    current = device;
    return true;
}

bool
shim_pop(void)
{
    if (height == 0) {
        return false;
    }
    current = stack[--height];
    return true;
}

int
shim_last(bool take)
{
    int error = last;
    last = take ? 0 : last;
    int broken = shim_now().broken;
    return broken ? broken : error;
}

static void
pause_for(double seconds)
{
    struct timespec rest = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    if (seconds > 0) {
        nanosleep(&rest, NULL);
    }
}

int
shim_enter(const char *call)
{
    int error;
    double seconds = 0;

    begin();
    error = state.broken;
    for (int i = 0; i < order_count; i++) {
        if (!strcmp(orders[i].call, call)) {
            seconds = orders[i].seconds;
            if (!error && orders[i].count) {
                error = orders[i].error;
                orders[i].count -= orders[i].count > 0;
            }
        }
    }
    bool dies = aborts && strncmp(call, "__cuda", 6);
    end();
    if (dies) {
        fprintf(stderr, "shim: %s was called\n", call);
        abort();
    }
    pause_for(seconds);
    return error;
}

bool
shim_waits(const char *call)
{
    bool found = false;
    begin();
    for (int i = 0; i < order_count; i++) {
        found |= !strcmp(orders[i].call, call) && orders[i].error && orders[i].count;
    }
    end();
    return found;
}

/* Requires the lock. */
static void
append(const char *line, size_t length)
{
    if (file >= 0 && write(file, line, length) < 0) {
        file = -1;
    }
    if (used + length + 1 > room) {
        size_t more = 2 * (used + length) + 4096;
        char *grown = realloc(lines, more);
        if (!grown) {
            return;
        }
        lines = grown;
        room = more;
    }
    memcpy(lines + used, line, length);
    used += length;
    lines[used] = '\0';
}

static void
record(int error, const char *call, const char *details)
{
    char line[LINE + 128];
    int length = snprintf(
        line, sizeof line, "%s%s%s device=%d error=%d\n", call, *details ? " " : "", details,
        current, error);
    begin();
    append(line, (size_t)length);
    end();
}

int
shim_leave(int error, const char *call, const char *format, ...)
{
    char details[LINE];
    va_list args;
    va_start(args, format);
    vsnprintf(details, sizeof details, format, args);
    va_end(args);
    record(error, call, details);
    last = error ? error : last;
    return error;
}

int
shim_note(int error, const char *call, const char *format, ...)
{
    char details[LINE];
    va_list args;
    va_start(args, format);
    vsnprintf(details, sizeof details, format, args);
    va_end(args);
    record(error, call, details);
    return error;
}

void *
shim_allocate(size_t bytes)
{
    block *b = malloc(sizeof *b);
    if (!b) {
        return NULL;
    }
    b->memory = aligned_alloc(256, (bytes + 256) / 256 * 256);
    b->bytes = bytes;
    b->device = current;
    b->pooled = false;
    if (!b->memory) {
        free(b);
        return NULL;
    }
    begin();
    b->next = blocks;
    blocks = b;
    live++;
    end();
    return b->memory;
}

bool
shim_free(void *memory)
{
    block *found = NULL;
    begin();
    for (block **b = &blocks; *b; b = &(*b)->next) {
        if ((*b)->memory == memory) {
            found = *b;
            *b = found->next;
            live--;
            break;
        }
    }
    end();
    if (found) {
        free(found->memory);
        free(found);
    }
    return found != NULL;
}

/* Requires the lock. */
static block *
block_of(const void *memory, size_t bytes)
{
    uintptr_t at = (uintptr_t)memory;
    for (block *b = blocks; b; b = b->next) {
        uintptr_t from = (uintptr_t)b->memory;
        if (at >= from && at - from <= b->bytes && bytes <= b->bytes - (at - from)) {
            return b;
        }
    }
    return NULL;
}

bool
shim_owns(const void *memory, size_t bytes)
{
    begin();
    bool owned = block_of(memory, bytes) != NULL;
    end();
    return owned;
}

void
shim_pool(const void *memory)
{
    begin();
    block *b = block_of(memory, 0);
    if (b) {
        b->pooled = true;
    }
    end();
}

bool
shim_pooled(const void *memory)
{
    begin();
    const block *b = block_of(memory, 0);
    bool pooled = b && b->pooled;
    end();
    return pooled;
}

int
shim_device_of(const void *memory)
{
    begin();
    const block *b = block_of(memory, 0);
    int device = b ? b->device : -1;
    end();
    return device;
}
