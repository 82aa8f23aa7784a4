/* Tests of libaicf in C: each runs in a process of its own, chosen by name. */
#ifndef CHECK_H
#define CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* A test, and the ids of the promises that it keeps, apart by spaces. */
#define TEST(name, ids)                                            \
    static void name(void);                                        \
    __attribute__((constructor)) static void register_##name(void) \
    {                                                              \
        check_register(#name, name);                               \
    }                                                              \
    static void name(void)

#define CHECK(truth) check_true((truth), #truth, __FILE__, __LINE__)
#define CHECK_INT(got, want) check_int((int64_t)(got), (int64_t)(want), #got, __FILE__, __LINE__)
#define CHECK_TEXT(got, part) check_text((got), (part), __FILE__, __LINE__)

void check_register(const char *name, void (*run)(void));
void check_true(bool truth, const char *text, const char *file, int line);
void check_int(int64_t got, int64_t want, const char *text, const char *file, int line);
void check_text(const char *got, const char *part, const char *file, int line);

#endif
