// More of ptx.cuh: the instructions that kernels for sm_90a are made of, one function an
// instruction, nothing else. Apart, since sources for other archs have no use for them.
#ifndef AICF_CUDA_PTX_SM_90A_CUH
#define AICF_CUDA_PTX_SM_90A_CUH

#include <cuda.h>

#include <aicf/cuda/ptx.cuh>

namespace aicf::ptx {

// ---- barriers -----------------------------------------------------------------------------------

__device__ inline void
barrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// At a block's barrier by its address in the cluster, this block's own too. Relaxed: it says that
// reads are over and publishes no writes (`release.cluster` costs a device-wide barrier each time,
// 0.4 us on an H200).
__device__ inline void
barrier_arrive_in_cluster(uint32_t there)
{
    asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(there)
                 : "memory");
}

// As barrier_wait, and after what other blocks of the cluster wrote before the phase was over.
__device__ inline void
barrier_wait_cluster(uint32_t barrier, uint32_t parity)
{
    asm volatile("{\n"
                 ".reg .pred over;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 over, [%0], %1;\n"
                 "@!over bra again;\n"
                 "}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

// All of so many threads, of those that meet at the barrier `id` of the block (0: __syncthreads).
__device__ inline void
threads_meet(int id, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// ---- shared memory ------------------------------------------------------------------------------

// Four floats to the cluster's address `there`; their 16 bytes count towards `barrier`, of the same
// block.
__device__ inline void
send_cluster_x4(uint32_t there, float x0, float x1, float x2, float x3, uint32_t barrier)
{
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32"
                 " [%0], {%2, %3, %4, %5}, [%1];" ::"r"(there),
                 "r"(barrier), "f"(x0), "f"(x1), "f"(x2), "f"(x3)
                 : "memory");
}

// 8 bytes from shared memory.
__device__ inline void
load_shared_pair(uint32_t from, uint32_t &x, uint32_t &y)
{
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(x), "=r"(y) : "r"(from) : "memory");
}

// Four 8 x 8 blocks of 16-bit values; lane l names row l % 8 of block l / 8. Thread t has, of each
// block, the elements 2 (t % 4) and the next of row t / 4.
__device__ inline void
stmatrix_x4(uint32_t row, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row),
                 "r"(r0), "r"(r1), "r"(r2), "r"(r3)
                 : "memory");
}

// ---- registers of a warpgroup -------------------------------------------------------------------

template <int kRegisters>
__device__ inline void
registers_give()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

template <int kRegisters>
__device__ inline void
registers_take()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// ---- the copy engine ----------------------------------------------------------------------------

__device__ inline void
map_prefetch(const CUtensorMap *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// The box at (x, y, z) to shared memory; its bytes count towards `barrier`.
__device__ inline void
box_load(uint32_t to, const CUtensorMap *map, int x, int y, int z, uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to),
                 "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
                 : "memory");
}

// The same to the same address and barrier of every block in `blocks`, a bit each.
__device__ inline void
box_load_to_all(
    uint32_t to, const CUtensorMap *map, int x, int y, int z, uint32_t barrier, uint16_t blocks)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
                 "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier), "h"(blocks)
                 : "memory");
}

// The box at (x, y, z) from shared memory; what lies outside the tensor is dropped, but for what
// shares 16 bytes with what lies inside.
__device__ inline void
box_store(const CUtensorMap *map, int x, int y, int z, uint32_t from)
{
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group"
                 " [%0, {%1, %2, %3}], [%4];" ::"l"(map),
                 "r"(x), "r"(y), "r"(z), "r"(from)
                 : "memory");
}

// The box at (x, y, z) on its way to the L2: nobody waits.
__device__ inline void
box_prefetch(const CUtensorMap *map, int x, int y, int z)
{
    asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global [%0, {%1, %2, %3}];" ::"l"(map),
                 "r"(x), "r"(y), "r"(z)
                 : "memory");
}

// Closes the group of the stores that this thread asked for since the last one.
__device__ inline void
box_store_commit()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// At most kPending of this thread's groups still read shared memory.
template <int kPending>
__device__ inline void
box_store_wait_read()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

// ---- products of a warpgroup --------------------------------------------------------------------

__device__ inline void
wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ inline void
wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int kPending>
__device__ inline void
wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// d[64 x N] = a[64 x 16] b[16 x N] + (add ? d : 0), f32 sums, of operands in shared memory as
// descriptors say (wgmma.cuh); kATurned, kBTurned: m or n lie together there, not k. Thread t holds
// d[4 j + 2 h + c] = row t / 32 * 16 + t % 32 / 4 + 8 h, column 8 j + t % 4 * 2 + c. The macros
// spell the N / 2 operands.
#define AICF_TEN(t) \
    "%" #t "0,%" #t "1,%" #t "2,%" #t "3,%" #t "4,%" #t "5,%" #t "6,%" #t "7,%" #t "8,%" #t "9,"
#define AICF_D8(i)                                                                              \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
        "+f"(d[i + 6]), "+f"(d[i + 7])
#define AICF_D32(i) AICF_D8(i), AICF_D8(i + 8), AICF_D8(i + 16), AICF_D8(i + 24)
#define AICF_R30 AICF_TEN() AICF_TEN(1) AICF_TEN(2)
#define AICF_R60 AICF_R30 AICF_TEN(3) AICF_TEN(4) AICF_TEN(5)
#define AICF_R90 AICF_R60 AICF_TEN(6) AICF_TEN(7) AICF_TEN(8)
#define AICF_R120 AICF_R90 AICF_TEN(9) AICF_TEN(10) AICF_TEN(11)
#define AICF_R4 "%0,%1,%2,%3"
#define AICF_D4 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
#define AICF_R32 AICF_R30 "%30,%31"
#define AICF_R64 AICF_R60 "%60,%61,%62,%63"
#define AICF_R96 AICF_R90 "%90,%91,%92,%93,%94,%95"
#define AICF_R128 AICF_R120 "%120,%121,%122,%123,%124,%125,%126,%127"

// `a`, `b`, `p`, `s`, `t` are the numbers of the operands that follow the N / 2 sums.
#define AICF_WGMMA(type, name, columns, registers, a, b, p, s, t, ...)                        \
    template <bool kATurned, bool kBTurned>                                                   \
    __device__ inline void wgmma(                                                             \
        float(&d)[columns / 2], uint64_t a_descriptor, uint64_t b_descriptor, bool add, type) \
    {                                                                                         \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #p ", 0;\n"                         \
                     "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." name "." name    \
                     " {" registers "}, %" #a ", %" #b ", p, 1, 1, %" #s ", %" #t ";\n}"      \
                     : __VA_ARGS__                                                            \
                     : "l"(a_descriptor), "l"(b_descriptor), "r"(static_cast<int>(add)),      \
                       "n"(static_cast<int>(kATurned)), "n"(static_cast<int>(kBTurned)));     \
    }
#define AICF_WGMMA_TYPES(...)                      \
    AICF_WGMMA(__nv_bfloat16, "bf16", __VA_ARGS__) \
    AICF_WGMMA(__half, "f16", __VA_ARGS__)

AICF_WGMMA_TYPES(8, AICF_R4, 4, 5, 6, 7, 8, AICF_D4)
AICF_WGMMA_TYPES(64, AICF_R32, 32, 33, 34, 35, 36, AICF_D32(0))
AICF_WGMMA_TYPES(128, AICF_R64, 64, 65, 66, 67, 68, AICF_D32(0), AICF_D32(32))
AICF_WGMMA_TYPES(192, AICF_R96, 96, 97, 98, 99, 100, AICF_D32(0), AICF_D32(32), AICF_D32(64))
AICF_WGMMA_TYPES(
    256, AICF_R128, 128, 129, 130, 131, 132, AICF_D32(0), AICF_D32(32), AICF_D32(64), AICF_D32(96))

// The same with a in registers: of the two rows of its sums, thread t holds k t % 4 * 2 and the
// next in a[0] and a[1], those 8 k on in a[2] and a[3].
#define AICF_WGMMA_HELD(type, name, columns, registers, a0, a1, a2, a3, b, p, t, ...)         \
    template <bool kBTurned>                                                                  \
    __device__ inline void wgmma_held(                                                        \
        float(&d)[columns / 2], const uint32_t(&a)[4], uint64_t b_descriptor, bool add, type) \
    {                                                                                         \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #p ", 0;\n"                         \
                     "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." name "." name    \
                     " {" registers "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #b       \
                     ", p, 1, 1, %" #t ";\n}"                                                 \
                     : __VA_ARGS__                                                            \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b_descriptor),         \
                       "r"(static_cast<int>(add)), "n"(static_cast<int>(kBTurned)));          \
    }
#define AICF_WGMMA_HELD_TYPES(...)                      \
    AICF_WGMMA_HELD(__nv_bfloat16, "bf16", __VA_ARGS__) \
    AICF_WGMMA_HELD(__half, "f16", __VA_ARGS__)

AICF_WGMMA_HELD_TYPES(64, AICF_R32, 32, 33, 34, 35, 36, 37, 38, AICF_D32(0))
AICF_WGMMA_HELD_TYPES(128, AICF_R64, 64, 65, 66, 67, 68, 69, 70, AICF_D32(0), AICF_D32(32))
AICF_WGMMA_HELD_TYPES(
    256, AICF_R128, 128, 129, 130, 131, 132, 133, 134, AICF_D32(0), AICF_D32(32), AICF_D32(64),
    AICF_D32(96))

// The same with 8 k of tf32, which the upper 19 bits of each word are; k lies together in both.
struct tf32 {};

#define AICF_WGMMA_TF32(columns, registers, a, b, p, ...)                                     \
    template <bool kATurned, bool kBTurned>                                                   \
    __device__ inline void wgmma(                                                             \
        float(&d)[columns / 2], uint64_t a_descriptor, uint64_t b_descriptor, bool add, tf32) \
    {                                                                                         \
        static_assert(!kATurned && !kBTurned, "k lies together");                             \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #p ", 0;\n"                         \
                     "wgmma.mma_async.sync.aligned.m64n" #columns "k8.f32.tf32.tf32"          \
                     " {" registers "}, %" #a ", %" #b ", p, 1, 1;\n}"                        \
                     : __VA_ARGS__                                                            \
                     : "l"(a_descriptor), "l"(b_descriptor), "r"(static_cast<int>(add)));     \
    }

AICF_WGMMA_TF32(64, AICF_R32, 32, 33, 34, AICF_D32(0))
AICF_WGMMA_TF32(128, AICF_R64, 64, 65, 66, AICF_D32(0), AICF_D32(32))
AICF_WGMMA_TF32(
    256, AICF_R128, 128, 129, 130, AICF_D32(0), AICF_D32(32), AICF_D32(64), AICF_D32(96))

// The same with a in registers: of the rows that thread t has sums of, r and r + 8, it holds (r, t
// % 4), (r + 8, t % 4), (r, t % 4 + 4) and (r + 8, t % 4 + 4). They stay as they are until the
// product is over.
#define AICF_WGMMA_HELD_TF32(columns, registers, a0, a1, a2, a3, b, p, ...)                   \
    __device__ inline void wgmma_held(                                                        \
        float(&d)[columns / 2], const uint32_t(&a)[4], uint64_t b_descriptor, bool add, tf32) \
    {                                                                                         \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #p ", 0;\n"                         \
                     "wgmma.mma_async.sync.aligned.m64n" #columns "k8.f32.tf32.tf32"          \
                     " {" registers "}, {%" #a0 ",%" #a1 ",%" #a2 ",%" #a3 "}, %" #b          \
                     ", p, 1, 1;\n}"                                                          \
                     : __VA_ARGS__                                                            \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b_descriptor),         \
                       "r"(static_cast<int>(add)));                                           \
    }

AICF_WGMMA_HELD_TF32(64, AICF_R32, 32, 33, 34, 35, 36, 37, AICF_D32(0))
AICF_WGMMA_HELD_TF32(128, AICF_R64, 64, 65, 66, 67, 68, 69, AICF_D32(0), AICF_D32(32))
AICF_WGMMA_HELD_TF32(
    256, AICF_R128, 128, 129, 130, 131, 132, 133, AICF_D32(0), AICF_D32(32), AICF_D32(64),
    AICF_D32(96))

#undef AICF_WGMMA_HELD_TF32
#undef AICF_WGMMA_TF32
#undef AICF_WGMMA_HELD_TYPES
#undef AICF_WGMMA_HELD
#undef AICF_WGMMA_TYPES
#undef AICF_WGMMA
#undef AICF_R128
#undef AICF_R4
#undef AICF_D4
#undef AICF_R96
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
