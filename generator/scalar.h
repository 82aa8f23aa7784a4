/* Strict readings of scalars: the field says what its text means, YAML 1.1 guesses nothing. */
#ifndef OPGEN_SCALAR_H
#define OPGEN_SCALAR_H

#include <stdint.h>

#include "tree.h"

/* What YAML 1.1 reads a plain text as, where a person may not: "a bool", "an octal number". NULL:
   it is text to everyone. `numbers`: plain decimal and hexadecimal numbers count too. */
const char *scalar_other_reading(const char *text, bool numbers);

/* Each records a fault and returns false where the scalar is not what its name says. `what` names
   the field. Integers: -?(0|[1-9][0-9]*) or -?0x[0-9a-fA-F]+; numbers also with a fraction, an
   exponent. */
bool scalar_int(
    faults *f, context of, const node *n, const char *what, int64_t least, int64_t most,
    int64_t *value);
bool scalar_real(faults *f, context of, const node *n, const char *what, double *value);
bool scalar_bool(faults *f, context of, const node *n, const char *what, bool *value);
/* Text that is not empty and is read alike by everyone. */
bool scalar_text(faults *f, context of, const node *n, const char *what, bool numbers);
/* Likewise of a key. */
bool scalar_key(faults *f, context of, const pair *p);

bool scalar_looks_int(const char *text);
bool scalar_looks_real(const char *text);

#endif
