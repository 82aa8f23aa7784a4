/* copy on the CPU: out = x over joint views, by the size of the elements; a bool becomes 0 or 1.
   Where the two run through memory along different dims, tile by tile. Bound by bytes. */
#include <aicf_ops/copy.h>

#include <aicf/cpu/turned.h>

AICF_TURNED_COPY(uint8_t, 8, AICF_SAME)
AICF_TURNED_COPY(uint16_t, 16, AICF_SAME)
AICF_TURNED_COPY(uint32_t, 32, AICF_SAME)
AICF_TURNED_COPY(uint64_t, 64, AICF_SAME)
AICF_TURNED_COPY(uint8_t, bool, AICF_TRUTH)

#define COPY(s, name)                                                            \
    aicf_status aicf_cpu_copy_loop_##s(                                          \
        const aicf_view *x, const aicf_view *out, int64_t A, aicf_stream stream) \
    {                                                                            \
        (void)A, (void)stream;                                                   \
        return copy_##name(x, out);                                              \
    }

COPY(f32, 32)
COPY(f16, 16)
COPY(bf16, 16)
COPY(f64, 64)
COPY(i8, 8)
COPY(u8, 8)
COPY(i16, 16)
COPY(i32, 32)
COPY(i64, 64)
COPY(bool, bool)
