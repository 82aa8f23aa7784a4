#include "options.h"

#include <getopt.h>
#include <stdio.h>

static const char help[] =
    "Usage: opgen [--out DIR] OPS.YAML        write what follows from the table\n"
    "       opgen --check OPS.YAML            only report its faults\n"
    "       opgen --list [--json] OPS.YAML    its ops, one a line\n"
    "       opgen --explain OP OPS.YAML       all that opgen knows of one op\n"
    "       opgen --deps [--out DIR] OPS.YAML the files read, as a rule for make\n"
    "       opgen --schema                    JSON schema of a table, for editors\n"
    "       opgen --fault-ids                 the words by which faults are known\n"
    "       opgen --version | --help\n"
    "\n"
    "  --out DIR        the folder to write to; generated if not said\n"
    "  --templates DIR  templates to use; templates if not said\n"
    "\n"
    "Exit status: 0 done, 1 faults in the table or a failure to write, 2 misuse. After a failure "
    "the\n"
    "folder is as it was.\n";

void
options_help(void)
{
    fputs(help, stdout);
}

static bool
misuse(const char *why)
{
    fprintf(stderr, "opgen: %s; opgen --help says how it is used\n", why);
    return false;
}

enum { OPTION_OUT = 256, OPTION_TEMPLATES, OPTION_JSON, OPTION_ACTION };

static const struct option known[] = {
    {"out", required_argument, NULL, OPTION_OUT},
    {"templates", required_argument, NULL, OPTION_TEMPLATES},
    {"json", no_argument, NULL, OPTION_JSON},
    {"check", no_argument, NULL, OPTION_ACTION + ACTION_CHECK},
    {"list", no_argument, NULL, OPTION_ACTION + ACTION_LIST},
    {"explain", required_argument, NULL, OPTION_ACTION + ACTION_EXPLAIN},
    {"schema", no_argument, NULL, OPTION_ACTION + ACTION_SCHEMA},
    {"deps", no_argument, NULL, OPTION_ACTION + ACTION_DEPS},
    {"fault-ids", no_argument, NULL, OPTION_ACTION + ACTION_FAULT_IDS},
    {"version", no_argument, NULL, OPTION_ACTION + ACTION_VERSION},
    {"help", no_argument, NULL, OPTION_ACTION + ACTION_HELP},
    {NULL, 0, NULL, 0},
};

static bool
needs_table(action a)
{
    return a <= ACTION_EXPLAIN || a == ACTION_DEPS;
}

bool
options_read(int argc, char **argv, options *o)
{
    *o = (options){.out = "generated", .templates = "templates"};
    for (int c; (c = getopt_long(argc, argv, "h", known, NULL)) != -1;) {
        switch (c) {
        case OPTION_OUT: o->out = optarg; break;
        case OPTION_TEMPLATES: o->templates = optarg; break;
        case OPTION_JSON: o->json = true; break;
        case 'h': o->action = ACTION_HELP; break;
        case '?': return misuse("misuse");
        default:
            if (o->action != ACTION_WRITE) {
                return misuse("more than one thing to do");
            }
            o->action = (action)(c - OPTION_ACTION);
            o->op = o->action == ACTION_EXPLAIN ? optarg : NULL;
        }
    }
    int files = argc - optind;
    if (files != needs_table(o->action)) {
        return misuse(needs_table(o->action) ? "one table expected" : "no table expected");
    }
    if (o->json && o->action != ACTION_LIST) {
        return misuse("--json goes with --list");
    }
    if (!*o->out || !*o->templates) {
        return misuse("an empty folder name");
    }
    o->table = files ? argv[optind] : NULL;
    return true;
}
