/* A profiler's side of NVTX, as NVTX_INJECTION64_PATH brings it into a process: writes each range
 * that is pushed and popped to the file NVTX_LOG. What it declares is nvtx3's, by its headers'
 * numbers. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXPORT_CALLBACKS = 1, MODULE_CORE = 1, MODULE_CORE2 = 5 };
enum { CORE_PUSH = 9, CORE_POP = 11 };
enum { CORE2_PUSH = 4, CORE2_POP = 5, CORE2_REGISTER = 10, CORE2_CREATE = 12 };
enum { MESSAGE_ASCII = 1, MESSAGE_REGISTERED = 3 };

typedef void (*function)(void);

typedef struct {
    size_t struct_size;
    int (*functions)(int module, function ***table, unsigned *size);
} callbacks;

typedef struct {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const void *message;
} attributes;

static void
note(const char *what, const char *name)
{
    FILE *log = fopen(getenv("NVTX_LOG"), "a");
    if (log) {
        fprintf(log, "%s %s\n", what, name);
        fclose(log);
    }
}

static int
push_plain(const char *name)
{
    note("push", name);
    return 0;
}

static int
pop_plain(void)
{
    note("pop", "");
    return 0;
}

/* Domains and registered strings are their names. */
static void *
keep(const char *name)
{
    return strdup(name);
}

static void *
register_string(void *domain, const char *text)
{
    (void)domain;
    return keep(text);
}

static int
push(const char *domain, const attributes *event)
{
    char text[1024] = "?";
    if (event->message_type == MESSAGE_ASCII || event->message_type == MESSAGE_REGISTERED) {
        snprintf(text, sizeof text, "%s: %s", domain ? domain : "", (const char *)event->message);
    }
    note("push", text);
    return 0;
}

static int
pop(const char *domain)
{
    note("pop", domain ? domain : "");
    return 0;
}

int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t id));

int
InitializeInjectionNvtx2(const void *(*export_table)(uint32_t id))
{
    const callbacks *from = export_table(EXPORT_CALLBACKS);
    function **table;
    unsigned size;
    if (!from || !from->functions(MODULE_CORE, &table, &size) || size <= CORE_POP) {
        return 0;
    }
    *table[CORE_PUSH] = (function)push_plain;
    *table[CORE_POP] = (function)pop_plain;
    if (!from->functions(MODULE_CORE2, &table, &size) || size <= CORE2_CREATE) {
        return 0;
    }
    *table[CORE2_PUSH] = (function)push;
    *table[CORE2_POP] = (function)pop;
    *table[CORE2_REGISTER] = (function)register_string;
    *table[CORE2_CREATE] = (function)keep;
    return 1;
}
