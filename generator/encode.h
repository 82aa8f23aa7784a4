/* One encoder a sink: what a text must become to stand in C, Python, Make, Markdown or JSON and
   mean itself there. */
#ifndef OPGEN_ENCODE_H
#define OPGEN_ENCODE_H

#include "buffer.h"
#include "value.h"

/* `out` is the whole output so far: some break lines and look at the column they start in. */
typedef void encode_fn(buffer *out, const char *text);

typedef struct encoder {
    const char *name;
    encode_fn *write;
    unsigned takes; /* bits of field_kind */
    bool lines;     /* it may give several lines, which it does not indent itself */
} encoder;

extern const encoder encoders[]; /* ended by a NULL name */

const encoder *encoder_find(const char *name, size_t size); /* NULL: none */

/* The encoder `name`, which most values go through. */
encode_fn encode_name;

/* The column of the end of `out`, from 0. */
size_t encode_column(const buffer *out);

#endif
