// More of ptx_sm_90a.cuh: a warpgroup's products of 8-bit integers.
#ifndef AICF_CUDA_PTX_I8_SM_90A_CUH
#define AICF_CUDA_PTX_I8_SM_90A_CUH

#include <aicf/cuda/ptx_i8.cuh>
#include <aicf/cuda/ptx_sm_90a.cuh>

namespace aicf::ptx {

// As threads_meet; whether all of them say yes.
__device__ inline bool
threads_agree(int id, int threads, bool yes)
{
    int all;
    asm volatile("{\n"
                 ".reg .pred mine, ours;\n"
                 "setp.ne.b32 mine, %1, 0;\n"
                 "bar.red.and.pred ours, %2, %3, mine;\n"
                 "selp.b32 %0, 1, 0, ours;\n"
                 "}"
                 : "=r"(all)
                 : "r"(static_cast<int>(yes)), "r"(id), "r"(threads)
                 : "memory");
    return all != 0;
}

// As wgmma of ptx_sm_90a.cuh, of 32 k, k together in both operands; sums in 32-bit integers, which
// wrap. The last argument says whether a has a sign; b has one.
#define AICF_TEN(t) \
    "%" #t "0,%" #t "1,%" #t "2,%" #t "3,%" #t "4,%" #t "5,%" #t "6,%" #t "7,%" #t "8,%" #t "9,"
#define AICF_D8(i)                                                                              \
    "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3]), "+r"(d[i + 4]), "+r"(d[i + 5]), \
        "+r"(d[i + 6]), "+r"(d[i + 7])
#define AICF_D32(i) AICF_D8(i), AICF_D8(i + 8), AICF_D8(i + 16), AICF_D8(i + 24)
#define AICF_R30 AICF_TEN() AICF_TEN(1) AICF_TEN(2)
#define AICF_R60 AICF_R30 AICF_TEN(3) AICF_TEN(4) AICF_TEN(5)
#define AICF_R90 AICF_R60 AICF_TEN(6) AICF_TEN(7) AICF_TEN(8)
#define AICF_R120 AICF_R90 AICF_TEN(9) AICF_TEN(10) AICF_TEN(11)
#define AICF_R32 AICF_R30 "%30,%31"
#define AICF_R64 AICF_R60 "%60,%61,%62,%63"
#define AICF_R128 AICF_R120 "%120,%121,%122,%123,%124,%125,%126,%127"

// `a`, `b`, `p` are the numbers of the operands that follow the N / 2 sums.
#define AICF_WGMMA_I8(pair, name, columns, registers, a, b, p, ...)                         \
    __device__ inline void wgmma(                                                           \
        int(&d)[columns / 2], uint64_t a_descriptor, uint64_t b_descriptor, bool add, pair) \
    {                                                                                       \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #p ", 0;\n"                       \
                     "wgmma.mma_async.sync.aligned.m64n" #columns "k32.s32." name ".s8"     \
                     " {" registers "}, %" #a ", %" #b ", p;\n}"                            \
                     : __VA_ARGS__                                                          \
                     : "l"(a_descriptor), "l"(b_descriptor), "r"(static_cast<int>(add)));   \
    }
#define AICF_WGMMA_I8_TYPES(...)              \
    AICF_WGMMA_I8(pair_i8, "s8", __VA_ARGS__) \
    AICF_WGMMA_I8(pair_u8, "u8", __VA_ARGS__)

AICF_WGMMA_I8_TYPES(64, AICF_R32, 32, 33, 34, AICF_D32(0))
AICF_WGMMA_I8_TYPES(128, AICF_R64, 64, 65, 66, AICF_D32(0), AICF_D32(32))
AICF_WGMMA_I8_TYPES(
    256, AICF_R128, 128, 129, 130, AICF_D32(0), AICF_D32(32), AICF_D32(64), AICF_D32(96))

#undef AICF_WGMMA_I8_TYPES
#undef AICF_WGMMA_I8
#undef AICF_R128
#undef AICF_R64
#undef AICF_R32
#undef AICF_R120
#undef AICF_R90
#undef AICF_R60
#undef AICF_R30
#undef AICF_D32
#undef AICF_D8
#undef AICF_TEN

} // namespace aicf::ptx

#endif
