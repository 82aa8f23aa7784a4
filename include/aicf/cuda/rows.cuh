// Rows of a dense matrix, each read once: a team of threads holds a row in its registers from the
// load to the store. For work that reduces a row and then maps it: softmax, norms.
//
//   lanes    16 or 32 lanes a row, 1 to 8 packs of 16 bytes a lane; where that is one pack, a team
//            has two rows, so that two loads are on their way
//   block    a block a row, up to kBlockPacks packs
//   cluster  2, 4 or 8 blocks a row (sm_90), which exchange what they reduce through the shared
//            memory of each other
//   stay     many rows of a block each: blocks that stay, with the next row on its way to shared
//            memory while one is computed with
//   stream   no registers to hold a row in: a pass over one of any length, some packs ahead
//
// A row starts at any address. Its whole packs are dealt to the team one by one, so that neighbours
// read neighbouring 16 bytes; what lies before the first boundary and behind the last, its edges,
// are single elements, at most one a thread. So rows of odd length, each of another phase, cost one
// more access and nothing else. A row may be written over: each element is written by the thread
// that has read it, after the team's reduction.
//
// An op writes one body over a team and makes its kernels by AICF_ROWS_KERNELS:
//
//     template <int kPacks, int kRows, typename T, typename Team>
//     __device__ inline void
//     body(const operands<T> &p, Team &team)
//     {
//         rows::held<T, kPacks> x[kRows];
//         rows::span at[kRows];
//         float sum[kRows][1] = {};
//         for r: at[r] = team.span_of(p.x, p.shape, row = team.row(r, kRows));
//                rows::load(x[r], p.x + row * p.shape.n, at[r]);
//         for r: rows::each(at[r], [&](float v) { sum[r][0] += v; }, x[r]);
//         team.reduce(sum, rows::add{});
//         for r: rows::store(p.out + row * p.shape.n, at[r], true,
//                            [&](float v) { return v / sum[r][0]; }, x[r]);
//     }
//
// Reductions are xor-shuffles and sums in a fixed order: the same bits at every run. A launch may
// start while the one before it ends, and waits for it on the device.
#ifndef AICF_CUDA_ROWS_CUH
#define AICF_CUDA_ROWS_CUH

#include <aicf/cuda/early.cuh>
#include <aicf/cuda/launch.cuh>
#include <aicf/cuda/rows_ahead.cuh>
#include <aicf/cuda/rows_held.cuh>
#include <aicf/cuda/rows_stream.cuh>
#include <aicf/cuda/rows_teams.cuh>

namespace aicf::rows {

// At the head of a kernel that is launched by launch_waiting.
__device__ inline void
begin()
{
    ptx::let_next_launch_begin();
    ptx::wait_for_launch_before();
}

#if __CUDA_ARCH__ >= 900 || !defined(__CUDA_ARCH__)
// The same of a cluster that reads a row of x, and first of all what it has of it.
template <typename T>
__device__ inline void
begin_cluster(const T *x, const shape &s)
{
    ptx::let_next_launch_begin();
    if (threadIdx.x == 0) {
        int share = s.share * kPackSize<T>, from = static_cast<int>(ptx::cluster_rank()) * share;
        int count = s.n - from < share ? s.n - from : share;
        int64_t row = ptx::cluster_index();
        if (row < s.first) {
            early::ask(x + row * s.n + from, count);
        }
    }
    ptx::wait_for_launch_before();
}
#endif

// Rows of a team of lanes that hold so many packs of each.
template <int kPacks> constexpr int kRowsOf = kPacks == 1 ? 2 : 1;

// The kernels of an op for one dtype; P has a member `shape`. `packs`: how many of a row a thread
// holds at most, in `lanes` by powers of two.
template <typename P> struct kernels {
    int item; // bytes of an element
    int packs;
    void (*lanes[4])(P); // 1, 2, 4, 8 packs a thread
    void (*block)(P);
    void (*whole_lanes[4])(P); // of rows that fill 16 lanes, a warp by 1, 2, 4 packs; or NULL
};

constexpr int kLanesBlock = 128;
constexpr int kStayPacks = 8;        // of a thread of a block that stays
constexpr int64_t kEnoughBlocks = 2; // of a multiprocessor

// Multiprocessors of the current device.
inline int64_t
multiprocessors()
{
    int device = 0, count = 0;
    bool known =
        cudaGetDevice(&device) == cudaSuccess &&
        cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) == cudaSuccess;
    if (!known) {
        cudaGetLastError(); // the launch says what is wrong
    }
    return known ? count : 1;
}

// Threads of a block of lanes, of so many in all: few are spread over all multiprocessors.
inline int
lanes_block(int64_t threads)
{
    return threads / kLanesBlock < kEnoughBlocks * multiprocessors() ? kWarp : kLanesBlock;
}

inline unsigned
threads_for(int64_t packs, int each)
{
    int64_t warps = ceil_div(ceil_div(packs, each), kWarp);
    return static_cast<unsigned>((warps < 2 ? 2 : warps) * kWarp);
}

// A row of so many packs in lanes: those of each lane are 1 << power.
inline int
power_for(int64_t packs)
{
    int power = 0;
    while (packs > int64_t{kWarp} << power) {
        power++;
    }
    return power;
}

inline int
team_for(int64_t packs)
{
    return packs <= kWarp / 2 ? kWarp / 2 : kWarp;
}

template <typename... P>
bool
all_aligned(const P *...p)
{
    return ((phase_of(p) == 0) && ...);
}

// Whether rows begin at several phases of a line, and `packs` may be a line more at most.
inline bool
deal_by_lines(const shape &s, int item, int64_t packs, int64_t most)
{
    return int64_t{s.n} * item % kLineBytes != 0 && packs + kLinePacks - 1 <= most;
}

// Requires n * item <= 16 * kBlockPacks. `aligned`: all addresses are on 16-byte boundaries.
template <typename P>
aicf_status
launch(const kernels<P> &k, P p, aicf_stream stream, bool aligned = false)
{
    int64_t packs = int64_t{p.shape.n} * k.item / kPackBytes;
    bool whole = aligned && p.shape.n * int64_t{k.item} % kPackBytes == 0;
    if (p.shape.count == 0 || p.shape.n == 0) {
        return aicf_ok();
    }
    if (packs > int64_t{kWarp} * k.packs) {
        if (p.shape.count > kMostBlocks) {
            return status_of(cudaErrorInvalidConfiguration);
        }
        unsigned blocks = static_cast<unsigned>(p.shape.count);
        p.shape.lines = deal_by_lines(p.shape, k.item, packs, kBlockPacks);
        packs += p.shape.lines ? kLinePacks - 1 : 0;
        return launch_waiting(k.block, blocks, threads_for(packs, k.packs), 0, stream, p);
    }
    int power = power_for(packs);
    p.shape.team = team_for(packs);
    p.shape.lines = deal_by_lines(p.shape, k.item, packs, int64_t{p.shape.team} << power);
    int64_t teams = ceil_div(p.shape.count, power == 0 ? kRowsOf<1> : 1);
    int64_t threads = ceil_div(teams * p.shape.team, kWarp) * kWarp;
    int block = lanes_block(threads);
    if (ceil_div(threads, block) > kMostBlocks) {
        return status_of(cudaErrorInvalidConfiguration);
    }
    unsigned blocks = static_cast<unsigned>(ceil_div(threads, block));
    void (*kernel)(P) = k.lanes[power];
    int fills = packs == kWarp / 2                              ? 0
                : packs == int64_t{kWarp} << power && power < 3 ? power + 1
                                                                : -1;
    if (whole && fills >= 0 && k.whole_lanes[fills]) {
        kernel = k.whole_lanes[fills];
    }
    return launch_waiting(kernel, blocks, static_cast<unsigned>(block), 0, stream, p);
}

// Launches `kernel`, which calls begin() before it touches memory, by clusters of `size` blocks.
template <typename P>
aicf_status
start_clusters(
    void (*kernel)(P), unsigned blocks, unsigned threads, unsigned size, aicf_stream stream, P p)
{
    void *pointers[] = {&p};
    cudaLaunchAttribute attributes[2] = {};
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim.x = size;
    attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
    attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[1].val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t how = {};
    how.gridDim = dim3(blocks);
    how.blockDim = dim3(threads);
    how.stream = reinterpret_cast<cudaStream_t>(stream);
    how.attrs = attributes;
    how.numAttrs = launches_overlap() ? 2 : 1;
    cudaError_t error = cudaLaunchKernelExC(&how, reinterpret_cast<const void *>(kernel), pointers);
    if (error != cudaSuccess) {
        cudaGetLastError();
    }
    return status_of(error);
}

// A kernel for blocks of fewer threads, of which a multiprocessor has room for so many; or NULL.
template <typename P> struct narrow {
    void (*kernel)(P);
    unsigned threads;
    int blocks;
};

// The same by clusters. Requires n * item <= 16 * kBlockPacks * kClusterBlocks.
template <typename P>
aicf_status
launch_cluster(
    void (*kernel)(P), int item, int each, P p, aicf_stream stream, const narrow<P> &other = {})
{
    int64_t packs = int64_t{p.shape.n} * item / kPackBytes;
    if (p.shape.count == 0 || p.shape.n == 0) {
        return aicf_ok();
    }
    p.shape.lines = deal_by_lines(p.shape, item, packs, kBlockPacks * kClusterBlocks);
    packs += p.shape.lines ? kLinePacks - 1 : 0;
    int parts = 2; // short rows too: a cluster of one block is what memcheck cannot run
    while (parts < kClusterBlocks && packs > int64_t{parts} * kBlockPacks) {
        parts *= 2;
    }
    if (p.shape.count > kMostBlocks / parts) {
        return status_of(cudaErrorInvalidConfiguration);
    }
    p.shape.share = static_cast<int>(ceil_div(ceil_div(packs, parts), kLinePacks) * kLinePacks);
    unsigned blocks = static_cast<unsigned>(p.shape.count * parts);
    unsigned threads = threads_for(p.shape.share, each);
    bool fewer = other.kernel && threads <= other.threads;
    kernel = fewer ? other.kernel : kernel;
    int64_t at_once = fewer ? other.blocks : kThreads / threads;
    p.shape.first = static_cast<int>(multiprocessors() * at_once / parts);
    return start_clusters(kernel, blocks, threads, static_cast<unsigned>(parts), stream, p);
}

constexpr int64_t kManyRows = 16; // of a multiprocessor

// Whether rows are for blocks that stay: none would fit into less, and there are many. Few are for
// clusters, which come and go as they are done, so that those of the next launch are there early.
inline bool
may_stay(const shape &s, int item)
{
    int64_t packs = int64_t{s.n} * item / kPackBytes, most = kThreads * int64_t{kStayPacks};
    return packs > kBlockPacks && packs + kLinePacks - 1 <= most &&
           s.count >= kManyRows * multiprocessors();
}

// The kernels `stay` of an op, by the packs of a thread: of 8 the next row is on its way, of 7 the
// next two.
template <typename P> struct staying {
    void (*eight)(P), (*seven)(P);
};

constexpr int kMostShared = 225 << 10; // bytes of a block on sm_90, beside what it shares otherwise
// How many rows on one starts at the same place of a line.
inline int64_t
period_of(const shape &s, int item)
{
    int64_t bytes = int64_t{s.n} * item % kLineBytes, period = 1;
    while (bytes * period % kLineBytes != 0) {
        period *= 2;
    }
    return period;
}

// Each block has rows that start at the same place of a line: a multiple of the period of them.
// A multiprocessor has two at a time, of long rows one.
template <typename P>
aicf_status
launch_stay(const staying<P> &k, int item, P p, aicf_stream stream)
{
    int64_t packs = int64_t{p.shape.n} * item / kPackBytes, period = period_of(p.shape, item);
    p.shape.lines = deal_by_lines(p.shape, item, packs, kThreads * int64_t{kStayPacks});
    packs += p.shape.lines ? kLinePacks - 1 : 0;
    int each = static_cast<int>(ceil_div(packs, kThreads));
    each = each * 2 <= kStayPacks ? kStayPacks : each;
    unsigned threads = threads_for(packs, each);
    int64_t blocks = multiprocessors() * (kThreads / threads);
    blocks = blocks < period ? period : blocks / period * period;
    blocks = blocks < p.shape.count ? blocks : p.shape.count;
    int held = each <= 7 ? 7 : 8;
    void (*kernel)(P) = held == 7 ? k.seven : k.eight;
    aicf_status status = allow_shared(kernel, kMostShared);
    if (status.kind) {
        return status;
    }
    int bytes = (held < 8 ? 2 : 1) * ahead_bytes(held, threads);
    return launch_waiting(kernel, static_cast<unsigned>(blocks), threads, bytes, stream, p);
}

} // namespace aicf::rows

// The kernels of an op, in its own namespace, made of its `body`; `most`: packs of a row that a
// thread holds at most, 4 or 8.
#define AICF_ROWS_KERNELS(operands, most)                                                     \
    template <typename T, int kPacks>                                                         \
    __global__ void __launch_bounds__(rows::kLanesBlock) lanes(const operands<T> p)           \
    {                                                                                         \
        rows::lanes_team team(p.shape.team);                                                  \
        rows::begin();                                                                        \
        body<kPacks, rows::kRowsOf<kPacks>>(p, team);                                         \
    }                                                                                         \
    template <typename T>                                                                     \
    __global__ void __launch_bounds__(                                                        \
        rows::kBlockPacks / most, rows::kThreads * most / rows::kBlockPacks)                  \
        block(const operands<T> p)                                                            \
    {                                                                                         \
        rows::block_team team;                                                                \
        rows::begin();                                                                        \
        body<most, 1>(p, team);                                                               \
    }                                                                                         \
    template <typename T> rows::kernels<operands<T>> kernels_of()                             \
    {                                                                                         \
        rows::kernels<operands<T>> k = {                                                      \
            sizeof(T), most, {lanes<T, 1>, lanes<T, 2>, lanes<T, 4>, nullptr}, block<T>, {}}; \
        if constexpr (most == 8) {                                                            \
            k.lanes[3] = lanes<T, 8>;                                                         \
        }                                                                                     \
        return k;                                                                             \
    }

// The same and those for rows that fill their teams, of a `body` that takes Team::place for spans.
#define AICF_ROWS_ALL_KERNELS(operands, most)                                             \
    AICF_ROWS_KERNELS(operands, most)                                                     \
    template <typename T, int kPacks, int kWidth>                                         \
    __global__ void __launch_bounds__(rows::kLanesBlock) whole_lanes(const operands<T> p) \
    {                                                                                     \
        rows::whole_lanes_team<kWidth> team;                                              \
        rows::begin();                                                                    \
        body<kPacks, rows::kRowsOf<kPacks>>(p, team);                                     \
    }                                                                                     \
    template <typename T> rows::kernels<operands<T>> all_kernels_of()                     \
    {                                                                                     \
        rows::kernels<operands<T>> k = kernels_of<T>();                                   \
        k.whole_lanes[0] = whole_lanes<T, 1, rows::kWarp / 2>;                            \
        k.whole_lanes[1] = whole_lanes<T, 1, rows::kWarp>;                                \
        k.whole_lanes[2] = whole_lanes<T, 2, rows::kWarp>;                                \
        k.whole_lanes[3] = whole_lanes<T, 4, rows::kWarp>;                                \
        return k;                                                                         \
    }

// The one of blocks that stay, of `rest`, which is `body` behind its loads; of kPacks packs a
// thread. All rows of a block start at one place of a line.
#define AICF_ROWS_STAY_KERNEL(operands)                                            \
    template <typename T, int kPacks>                                              \
    __global__ void __launch_bounds__(rows::kThreads, 1) stay(const operands<T> p) \
    {                                                                              \
        constexpr int kAhead = kPacks < rows::kStayPacks ? 2 : 1;                  \
        extern __shared__ words slots[];                                           \
        rows::staying_team team;                                                   \
        rows::ahead<T, kPacks, kAhead> ahead(slots);                               \
        const rows::span at[1] = {team.span_of(p.x, p.shape, team.at)};            \
        const int64_t step = int64_t{gridDim.x} * p.shape.n;                       \
        const T *next = p.x + team.at * p.shape.n;                                 \
        int64_t asked = team.at;                                                   \
        auto ask = [&] {                                                           \
            ahead.ask(next, asked < p.shape.count ? at[0] : rows::nothing());      \
            next += step;                                                          \
            asked += gridDim.x;                                                    \
        };                                                                         \
        rows::begin();                                                             \
        T edge = rows::edge_of(next, at[0]);                                       \
        ask();                                                                     \
        if (kAhead > 1) {                                                          \
            ask();                                                                 \
        }                                                                          \
        _Pragma("unroll 1") for (; team.at < p.shape.count; team.at += gridDim.x)  \
        {                                                                          \
            rows::held<T, kPacks> x[1];                                            \
            ahead.take(x[0]);                                                      \
            x[0].edge = edge;                                                      \
            if (team.at + gridDim.x < p.shape.count) {                             \
                edge = rows::edge_of(next - (kAhead - 1) * step, at[0]);           \
            }                                                                      \
            ask();                                                                 \
            rest<kPacks, 1>(p, team, x, at);                                       \
        }                                                                          \
    }

// The one for sm_90 and later, in a source of its own.
#define AICF_ROWS_CLUSTER_KERNEL(operands, most)                             \
    template <typename T>                                                    \
    __global__ void __launch_bounds__(                                       \
        rows::kBlockPacks / most, rows::kThreads * most / rows::kBlockPacks) \
        cluster(const operands<T> p)                                         \
    {                                                                        \
        rows::cluster_team team;                                             \
        rows::begin();                                                       \
        body<most, 1>(p, team);                                              \
    }

#endif
