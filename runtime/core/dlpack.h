/* DLPack 1.3 as its specification lays it out, with our tensor's head in the place of DLTensor. */
#ifndef AICF_CORE_DLPACK_H
#define AICF_CORE_DLPACK_H

#include <aicf/tensor.h>

typedef struct dl_version {
    uint32_t major, minor;
} dl_version;

typedef struct dl_tensor {
    void *data;
    aicf_device device;
    int32_t rank;
    aicf_dtype dtype;
    int64_t *sizes;
    int64_t *strides;
    uint64_t byte_offset;
} dl_tensor;

_Static_assert(offsetof(aicf_tensor, byte_offset) == offsetof(dl_tensor, byte_offset), "head");
_Static_assert(offsetof(aicf_tensor, sizes) == offsetof(dl_tensor, sizes), "head");
_Static_assert(offsetof(aicf_tensor, numel) == sizeof(dl_tensor), "head");

enum { DL_MAJOR = 1, DL_MINOR = 3 };

/* Device types by their numbers. */
enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3, DL_CUDA_MANAGED = 13 };

enum { DL_READ_ONLY = 1, DL_COPIED = 2 };

typedef struct dl_managed {
    dl_version version;
    void *context;
    void (*deleter)(struct dl_managed *self);
    uint64_t flags;
    dl_tensor tensor;
} dl_managed;

typedef struct dl_legacy {
    dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_legacy *self);
} dl_legacy;

typedef void dl_fail_fn(void *context, const char *kind, const char *message);

/* Of a framework: its current stream on a device. Not 0: an exception. */
typedef int stream_fn(int32_t device_type, int32_t device_index, void **stream);

/* A type's C exchange API. Nothing in it synchronises. `borrow` may be missing; what it writes is
   valid until Python runs again. */
typedef struct dl_exchange {
    dl_version version;
    const struct dl_exchange *older;
    int (*allocate)(dl_tensor *prototype, dl_managed **out, void *context, dl_fail_fn *fail);
    int (*own)(void *object, dl_managed **out);
    int (*wrap)(dl_managed *tensor, void **object);
    int (*borrow)(void *object, void *tensor);
    stream_fn *stream;
} dl_exchange;

#define DL_CAPSULE "dltensor_versioned"
#define DL_CAPSULE_USED "used_dltensor_versioned"
#define DL_CAPSULE_LEGACY "dltensor"
#define DL_CAPSULE_LEGACY_USED "used_dltensor"
#define DL_CAPSULE_EXCHANGE "dlpack_exchange_api"

#endif
