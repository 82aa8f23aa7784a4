/* opgen: reads the capability table and writes what follows from it. Read, check, render, write:
   each stage is whole before the next. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "commands.h"
#include "file.h"
#include "options.h"
#include "render.h"
#include "write.h"
#include "yaml_read.h"

enum { EXIT_GOOD, EXIT_FAULT, EXIT_MISUSE };

typedef struct run {
    arena *memory;
    const options *options;
    const char *text; /* of the table */
    size_t size;
    const templates *templates;
} run;

/* NULL after the faults were printed. */
static const table *
read_table(run *r)
{
    faults *f = faults_create(r->memory, r->options->table, r->text, r->size);
    const node *root = yaml_read(r->memory, f, r->text, r->size);
    const table *t = root ? check_table(r->memory, f, root) : NULL;
    faults_print(f);
    return faults_count(f) == 0 ? t : NULL;
}

/* All that the output depends on: the table, the templates, opgen itself. False if that cannot be
   told. */
static bool
input_digest(const run *r, digest *d)
{
    bool known = file_digest("/proc/self/exe", d);
    digest_add(d, r->text, r->size);
    digest_add(d, &r->templates->digest, sizeof r->templates->digest);
    return known;
}

static int
run_write(run *r)
{
    digest input = {0};
    r->templates = templates_read(r->memory, r->options->templates);
    if (!r->templates) {
        return EXIT_FAULT;
    }
    bool known = input_digest(r, &input);
    if (known && write_is_current(r->options->out, &input)) {
        return EXIT_GOOD;
    }
    const table *t = read_table(r);
    update *u = t ? write_begin(r->memory, r->options->out, &input) : NULL;
    bool good = u && write_end(u, render(r->memory, t, r->templates, write_add, u));
    return good ? EXIT_GOOD : EXIT_FAULT;
}

/* A word of a makefile's rule. */
static void
print_word(const char *path)
{
    buffer word = {0};
    encoder_find("make", strlen("make"))->write(&word, path);
    fwrite(word.data, 1, word.size, stdout);
    buffer_finish(&word);
}

static int
run_deps(run *r)
{
    r->templates = templates_read(r->memory, r->options->templates);
    if (!r->templates) {
        return EXIT_FAULT;
    }
    print_word(arena_print(r->memory, "%s/ops.mk", r->options->out));
    fputs(": ", stdout);
    print_word(r->options->table);
    for (int i = 0; i < r->templates->paths.count; i++) {
        fputs(" \\\n  ", stdout);
        print_word(r->templates->paths.items[i]);
    }
    putchar('\n');
    return EXIT_GOOD;
}

static int
run_on_table(run *r)
{
    r->text = file_load(r->memory, r->options->table, &r->size);
    if (!r->text) {
        return EXIT_FAULT;
    }
    if (r->options->action == ACTION_WRITE) {
        return run_write(r);
    }
    if (r->options->action == ACTION_DEPS) {
        return run_deps(r);
    }
    const table *t = read_table(r);
    if (!t) {
        return EXIT_FAULT;
    }
    if (r->options->action == ACTION_LIST) {
        list_print(t, r->options->json);
    }
    if (r->options->action == ACTION_EXPLAIN && !explain_print(t, r->options->op)) {
        return EXIT_FAULT;
    }
    return EXIT_GOOD;
}

static int
run_action(run *r)
{
    switch (r->options->action) {
    case ACTION_VERSION: puts("opgen " OPGEN_VERSION); return EXIT_GOOD;
    case ACTION_HELP: options_help(); return EXIT_GOOD;
    case ACTION_SCHEMA: schema_print(); return EXIT_GOOD;
    case ACTION_FAULT_IDS:
        for (int i = 0; fault_ids[i]; i++) {
            puts(fault_ids[i]);
        }
        return EXIT_GOOD;
    case ACTION_WRITE:
    case ACTION_CHECK:
    case ACTION_LIST:
    case ACTION_EXPLAIN:
    case ACTION_DEPS: break;
    }
    return run_on_table(r);
}

int
main(int argc, char **argv)
{
    options o;
    if (!options_read(argc, argv, &o)) {
        return EXIT_MISUSE;
    }
    signal(SIGXFSZ, SIG_IGN); /* a file over the limit is an error of write() */
    run r = {.memory = arena_create(), .options = &o};
    int status = run_action(&r);
    arena_destroy(r.memory);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        file_complain("standard output", "cannot be written");
        status = EXIT_FAULT;
    }
    return status;
}
