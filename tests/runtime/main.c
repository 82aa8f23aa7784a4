/* driver NAME: runs one test; without a name, lists them. */
#include "check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { TESTS = 200 };

static struct {
    const char *name;
    void (*run)(void);
} tests[TESTS];
static int count;

void
check_register(const char *name, void (*run)(void))
{
    if (count == TESTS) {
        abort();
    }
    tests[count].name = name;
    tests[count++].run = run;
}

void
check_true(bool truth, const char *text, const char *file, int line)
{
    if (!truth) {
        fprintf(stderr, "%s:%d: not so: %s\n", file, line, text);
        exit(1);
    }
}

void
check_int(int64_t got, int64_t want, const char *text, const char *file, int line)
{
    if (got != want) {
        fprintf(stderr, "%s:%d: %s is %" PRId64 ", not %" PRId64 "\n", file, line, text, got, want);
        exit(1);
    }
}

void
check_text(const char *got, const char *part, const char *file, int line)
{
    if (!strstr(got, part)) {
        fprintf(stderr, "%s:%d: \"%s\" does not say \"%s\"\n", file, line, got, part);
        exit(1);
    }
}

int
main(int argc, char **argv)
{
    for (int i = 0; i < count; i++) {
        if (argc < 2) {
            puts(tests[i].name);
        } else if (!strcmp(argv[1], tests[i].name)) {
            tests[i].run();
            return 0;
        }
    }
    return argc < 2 ? 0 : 2;
}
