// The instructions that CUDA C++ has no word for, one function an instruction, nothing else.
// Addresses in shared memory are 32-bit ones (`shared_address`). All are of sm_80 and later, those
// of clusters of sm_90.
#ifndef AICF_CUDA_PTX_CUH
#define AICF_CUDA_PTX_CUH

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace aicf::ptx {

__device__ inline uint32_t
shared_address(const void *p)
{
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// ---- arithmetic ---------------------------------------------------------------------------------

// The larger and the smaller; NaN if one of them is NaN. -0 is below 0.
__device__ inline float
max_nan(float a, float b)
{
    float c;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}

__device__ inline float
min_nan(float a, float b)
{
    float c;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}

// Which of two 16-bit lanes of a is above b's: none that is NaN, nor one beside NaN.
__device__ inline void
above(uint32_t a, uint32_t b, uint32_t &low, uint32_t &high, __half)
{
    asm("{\n"
        ".reg .pred p, q;\n"
        "setp.gt.f16x2 p|q, %2, %3;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "selp.u32 %1, 1, 0, q;\n"
        "}"
        : "=r"(low), "=r"(high)
        : "r"(a), "r"(b));
}

__device__ inline void
above(uint32_t a, uint32_t b, uint32_t &low, uint32_t &high, __nv_bfloat16)
{
#if __CUDA_ARCH__ >= 900
    asm("{\n"
        ".reg .pred p, q;\n"
        "setp.gt.bf16x2 p|q, %2, %3;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "selp.u32 %1, 1, 0, q;\n"
        "}"
        : "=r"(low), "=r"(high)
        : "r"(a), "r"(b));
#else
    low = __uint_as_float(a << 16) > __uint_as_float(b << 16);
    high = __uint_as_float(a & 0xffff0000) > __uint_as_float(b & 0xffff0000);
#endif
}

// A value that the compiler knows nothing about, at no cost.
__device__ inline void
opaque(uint32_t &x)
{
    asm volatile("" : "+r"(x));
}

// Of a word, the lowest `count` bits; all of them from 32 on.
__device__ inline uint32_t
low_bits(uint32_t count)
{
    uint32_t bits;
    asm("bmsk.clamp.b32 %0, 0, %1;" : "=r"(bits) : "r"(count));
    return bits;
}

// 2 to the x, within 2 ulp; what is below the normal numbers is 0.
__device__ inline float
exp2_approx(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// The logarithm of x to base 2, within 2^-22 near 1; a subnormal x counts as 0.
__device__ inline float
log2_approx(float x)
{
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// 1 / x, within 1 ulp; of what is below the normal numbers, and to it, 0 and infinity.
__device__ inline float
reciprocal_approx(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// ---- loads and stores ---------------------------------------------------------------------------

// 16 bytes, asked for here and not where they are used: before loads that what follows waits for.
__device__ inline void
load_first(const void *from, uint32_t (&word)[4])
{
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                 : "l"(from)
                 : "memory");
}

// 16 bytes that are read once: they take no room of the L1's from what is read again.
__device__ inline void
load_once(const void *from, uint32_t (&word)[4])
{
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                 : "l"(__cvta_generic_to_global(from)));
}

// 16 bytes that are never written and read again and again.
__device__ inline void
load_often(const void *from, uint32_t (&word)[4])
{
    asm("ld.global.nc.L1::evict_last.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
        : "l"(__cvta_generic_to_global(from)));
}

// The line of the L2 that holds an element, on its way there.
__device__ inline void
prefetch_l2(const void *p)
{
    asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(p)));
}

// Has the sector come to the L1: nobody waits for it.
__device__ inline void
prefetch(const void *from)
{
    asm volatile("prefetch.global.L1 [%0];" ::"l"(__cvta_generic_to_global(from)));
}

// 16 bytes to global memory by one instruction.
__device__ inline void
store_global(void *p, const uint32_t (&x)[4])
{
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(p)),
                 "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
                 : "memory");
}

// 16 bytes from shared memory.
__device__ inline void
load_shared(uint32_t from, uint32_t (&word)[4])
{
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                 : "r"(from)
                 : "memory");
}

// ---- asynchronous copies ------------------------------------------------------------------------

// 16 bytes to shared memory, of which the first `bytes` come from `from` and the rest are zeros;
// none of `from` is read beyond them. Past the L1: a tile is read once a block.
__device__ inline void
copy_async_16(uint32_t to, const void *from, int bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
                 : "memory");
}

// The same of 16 bytes that are all there: without the selects and sums that a size costs.
__device__ inline void
copy_async_16(uint32_t to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// 4 bytes, of which `bytes` come from `from` and the rest are zeros.
__device__ inline void
copy_async_4(uint32_t to, const void *from, int bytes)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes)
                 : "memory");
}

__device__ inline void
copy_async_4(uint32_t to, const void *from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}

// Closes the group of the copies that this thread made since the last one.
__device__ inline void
copy_async_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// At most kPending of this thread's groups are still on their way.
template <int kPending>
__device__ inline void
copy_async_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// ---- matrix fragments ---------------------------------------------------------------------------

// Four 8 x 8 blocks of 16-bit values; lane l names row l % 8 of block l / 8. Thread t then holds,
// of each block, the elements 2 (t % 4) and the next of row t / 4.
__device__ inline void
ldmatrix_x4(uint32_t row, uint32_t (&r)[4])
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(row)
                 : "memory");
}

// The same of the transposed blocks: elements 2 (t % 4) and the next of column t / 4.
__device__ inline void
ldmatrix_x4_trans(uint32_t row, uint32_t (&r)[4])
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(row)
                 : "memory");
}

// d[16 x 8] += a[16 x 16] * b[16 x 8], f32 sums. Thread t, with g = t / 4 and c = 2 (t % 4), holds
// d: (g, c) (g, c + 1) (g + 8, c) (g + 8, c + 1); pairs of a: (g, c) (g + 8, c) (g, c + 8) (g + 8,
// c + 8); pairs of b along k: (c, g) (c + 8, g).
__device__ inline void
mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, __half)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
        " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline void
mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, __nv_bfloat16)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
        " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// d[16 x 8] += a[16 x 8] * b[8 x 8], f32 sums of tf32 products: of each word the upper 19 bits. d
// as above; a: (g, t % 4) (g + 8, t % 4) (g, t % 4 + 4) (g + 8, t % 4 + 4); b: (t % 4, g) (t % 4 +
// 4, g).
__device__ inline void
mma_m16n8k8_tf32(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
        " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// ---- launches that overlap ----------------------------------------------------------------------

// Waits until the launch before this one has ended and what it wrote can be read; at once where the
// two do not overlap. Nothing below sm_90, where they never do.
__device__ inline void
wait_for_launch_before()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// As far as this block goes, the next launch may begin, if it is one that waits.
__device__ inline void
let_next_launch_begin()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// ---- clusters -----------------------------------------------------------------------------------

#if __CUDA_ARCH__ >= 900 || !defined(__CUDA_ARCH__)

__device__ inline uint32_t
cluster_rank()
{
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ inline uint32_t
cluster_size()
{
    uint32_t size;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    return size;
}

// Of the cluster among all of a grid of one dim.
__device__ inline uint32_t
cluster_index()
{
    uint32_t index;
    asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(index));
    return index;
}

// Every thread of the cluster arrives; what it wrote before is seen by who has waited.
__device__ inline void
cluster_arrive()
{
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ inline void
cluster_wait()
{
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// ---- barriers that count bytes: at `barrier`, 8 bytes of shared memory ----

__device__ inline void
barrier_init(uint32_t barrier, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals)
                 : "memory");
}

// Other blocks of the cluster see what was made so, once they have waited for the cluster.
__device__ inline void
barrier_init_fence()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Arrives, and makes the phase wait for so many bytes more.
__device__ inline void
barrier_expect(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

// Until the phase of this parity is over.
__device__ inline void
barrier_wait(uint32_t barrier, uint32_t parity)
{
    asm volatile("{\n"
                 ".reg .pred over;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
                 "@!over bra again;\n"
                 "}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

// `bytes` of global memory to shared memory, a multiple of 16 between addresses on 16-byte
// boundaries; they are counted by `barrier`.
__device__ inline void
copy_bulk(uint32_t to, const void *from, uint32_t bytes, uint32_t barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(barrier)
                 : "memory");
}

// `bytes`, a multiple of 16, from a 16-byte boundary on, on their way to the L2: nobody waits.
__device__ inline void
prefetch_l2(const void *from, uint32_t bytes)
{
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(from)),
                 "r"(bytes)
                 : "memory");
}

// What this thread wrote to shared memory comes before the copies, from there or to there, that are
// made after a barrier.
__device__ inline void
copy_engine_fence()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// x to the cluster's address `there`, and its 4 bytes to the count of `barrier`, of the same block.
__device__ inline void
send_cluster(uint32_t there, float x, uint32_t barrier)
{
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(there),
        "r"(__float_as_uint(x)), "r"(barrier)
        : "memory");
}

// The address, among those of the cluster, that `here` is for block `rank`.
__device__ inline uint32_t
address_in_block(uint32_t here, uint32_t rank)
{
    uint32_t there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
    return there;
}

__device__ inline void
store_cluster(uint32_t there, float x)
{
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(x) : "memory");
}

#endif

} // namespace aicf::ptx

#endif
