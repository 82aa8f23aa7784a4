/* Descriptors as opgen writes them, by hand: one row for each thing that a row can say. All share
   one call structure; kernels do nothing but for those of `add`. */
#ifndef ROWS_H
#define ROWS_H

#include <aicf/backend/cpu.h>
#include <aicf/backend/cuda.h>
#include <aicf/call.h>

enum { MAX_TENSORS = 16 };

typedef struct row_call {
    aicf_call head;
    bool flag;
    int word;
    int64_t axis;
    int64_t pair[2];
    double real;
    aicf_ints axes;
    aicf_scalar scalar;
    int64_t dims[12];
} row_call;

/* A call with its views and tensors. */
typedef struct frame {
    union {
        row_call call;
        char bytes[sizeof(row_call) + 16 + MAX_TENSORS * sizeof(aicf_view)];
    };
    aicf_tensor t[MAX_TENSORS];
} frame;

extern const aicf_op add_row, bias_row, gemm_row, sum_row, late_row, permute_row, concat_row,
    adam_row, conv_row, loss_row, scale_row, fill_row, norm_row, pair_row;

/* A backend of device types 2 and 13 that notes what is asked of it. */
extern const aicf_backend device_backend;
extern struct device_notes {
    int current, entered, left, arch;
    bool fails; /* enter does */
} device_notes;

/* What the launch functions of the rows saw last, and what they answer. */
extern aicf_status launch_answer;
extern const aicf_call *launched;

/* Tensors; sizes and strides are the caller's. Not settled. */
aicf_tensor
tensor_of(aicf_dtype dtype, void *data, int rank, const int64_t *sizes, const int64_t *strides);
aicf_tensor absent_tensor(void);

#define SIZES(...)                                                               \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) \
    {                                                                            \
        __VA_ARGS__                                                              \
    }
#define F32(data, ...) tensor_of(AICF_F32, data, SIZES(__VA_ARGS__), NULL)
#define STRIDES(...)  \
    (const int64_t[]) \
    {                 \
        __VA_ARGS__   \
    }

/* Begins a call of any variant with so many tensors set by hand afterwards. */
void frame_begin(frame *f, const aicf_op *op);
/* Settles all, and prepares. */
aicf_status frame_prepare(frame *f, int count);
/* The text of a status, in a buffer of its own. */
const char *frame_text(frame *f, aicf_status status);
const char *frame_explain(frame *f, int kernel);
aicf_view *frame_view(frame *f, int tensor);

#endif
