// Clusters that go over the rows of dense matrices (sm_90), each over rows of one phase: those of a
// team start at the same place of 16 bytes. So a thread has the same packs of all of its rows, and
// keeps what goes by column, of whatever phase, in registers.
//
// Rows come into shared memory, ahead, by copies of the whole packs that a block has; edges, single
// elements, are the first block's. Of a row a pair of floats is exchanged between the threads.
// Where a cluster has several blocks that is on its way while the next row is added up: a step adds
// up row i and finishes row i - 1. A block alone finishes the same row.
#ifndef AICF_CUDA_STEADY_CUH
#define AICF_CUDA_STEADY_CUH

#include <aicf/cuda/parts.cuh>
#include <aicf/cuda/rows.cuh>

namespace aicf::steady {

constexpr int kThreads = 512; // of a block at most
constexpr int kMostStages = 6, kLeastStages = 3;

// ---- launches -----------------------------------------------------------------------------------

// What a kernel is made for: packs of a row that a thread has at most, tensors that come to shared
// memory, blocks of a multiprocessor.
template <int kPacks_, int kTensors_, int kBlocks_> struct form {
    static constexpr int kPacks = kPacks_, kTensors = kTensors_, kBlocks = kBlocks_;
    static constexpr int64_t kMost = int64_t{kThreads} * kPacks; // packs of a block
    // Bytes of shared memory that a block takes, for all of its stages.
    static constexpr int kShared = kBlocks == 1 ? 200 << 10 : 100 << 10;
    static_assert(kLeastStages * kTensors * kMost * kPackBytes <= kShared, "");
};

struct plan {
    rows::shape shape;
    int64_t teams; // clusters
    int parts;     // blocks of one: 1, 2, 4 or 8
    int threads;   // of a block
    int stages;    // rows of which parts are in shared memory
    int room;      // bytes of what a stage has of one tensor
};

constexpr int64_t
common_divisor(int64_t a, int64_t b)
{
    return b == 0 ? a : common_divisor(b, a % b);
}

// How many rows on one starts at the same place of `bytes` bytes again.
inline int64_t
period_of(const rows::shape &s, int item, int64_t bytes)
{
    return bytes / common_divisor(bytes, int64_t{s.n} * item);
}

// So many of `most` teams that each has rows of one phase, at one place of a line or of a sector of
// 32 bytes too where that leaves no more than a quarter of the machine idle: 0 if there are none.
inline int64_t
teams_for(const rows::shape &s, int item, int64_t most)
{
    if (most >= s.count) {
        return s.count;
    }
    for (int64_t bytes = rows::kLineBytes; bytes > kPackBytes; bytes /= 2) {
        int64_t period = period_of(s, item, bytes), teams = most / period * period;
        if (teams * 16 >= most * (bytes == rows::kLineBytes ? 15 : 12)) {
            return teams;
        }
    }
    int64_t period = period_of(s, item, kPackBytes);
    return most / period * period;
}

// Of so many packs, dealt to threads in turns, how many the busiest scheduler has of warps of them.
constexpr int64_t
busiest(int64_t packs, int64_t threads)
{
    constexpr int64_t kSchedulers = 4; // of a multiprocessor
    int64_t rest = ceil_div(packs % threads, rows::kWarp);
    return packs / threads * ceil_div(threads / rows::kWarp, kSchedulers) +
           ceil_div(rest, kSchedulers);
}

// Whether rows of s are for `Form`, and how. They are where no cluster has too many packs of one
// and all tensors have the phase of the first: the caller sees to that.
template <typename Form, typename... P>
bool
plan_for(void (*kernel)(P...), const rows::shape &shape, int item, plan &s)
{
    int64_t packs = int64_t{shape.n} * item / kPackBytes;
    s.shape = shape;
    s.shape.lines = int64_t{shape.n} * item % rows::kLineBytes != 0;
    packs += s.shape.lines ? rows::kLinePacks - 1 : 0;
    if (packs > Form::kMost * rows::kClusterBlocks) {
        return false;
    }
    int64_t machine = rows::multiprocessors() * Form::kBlocks;
    s.parts = 1;
    while (s.parts < rows::kClusterBlocks &&
           (packs > s.parts * Form::kMost || shape.count * 2 * s.parts <= machine)) {
        s.parts *= 2;
    }
    s.teams = teams_for(
        shape, item,
        s.parts == 1 ? machine
                     : parts::clusters_at_once(kernel, {s.parts, kThreads, Form::kShared, {}}));
    int64_t lines = ceil_div(ceil_div(packs, s.parts), rows::kLinePacks);
    s.shape.share = static_cast<int>((lines > 0 ? lines : 1) * rows::kLinePacks);
    // As many threads as have equally much, or more if that is less for a scheduler.
    s.threads = static_cast<int>(
        rows::threads_for(s.shape.share, static_cast<int>(ceil_div(s.shape.share, kThreads))));
    s.threads =
        busiest(s.shape.share, kThreads) < busiest(s.shape.share, s.threads) ? kThreads : s.threads;
    s.room = s.shape.share * kPackBytes;
    int stages = Form::kShared / (Form::kTensors * s.room);
    s.stages = stages < kMostStages ? stages : kMostStages;
    return s.teams > 0 && shape.count / s.teams < INT32_MAX;
}

// Launches `kernel`, which waits for the launch before it.
template <typename Form, typename... P>
aicf_status
launch(void (*kernel)(P...), const plan &s, aicf_stream stream, typename exactly<P>::type... args)
{
    return parts::launch(
        kernel, s.teams, {s.parts, static_cast<unsigned>(s.threads), Form::kShared, stream},
        args...);
}

// ---- places -------------------------------------------------------------------------------------

// What a thread has of the rows team, team + teams, ..., which start where the first of them does.
template <typename T> struct place {
    rows::span at;
    uint32_t slot; // bytes from the start of a stage to the thread's first pack

    __device__ place(const T *x, const plan &s)
    {
        rows::cut cut = cut_of(x, s);
        at = rows::span_of(
            x + int64_t{team()} * s.shape.n, s.shape, static_cast<int>(threadIdx.x),
            static_cast<int>(blockDim.x), part());
        slot = static_cast<uint32_t>(at.first - origin_of(cut, s)) * uint32_t{sizeof(T)};
    }

    __device__ static int team()
    {
        return static_cast<int>(ptx::cluster_index());
    }

    __device__ static int part()
    {
        return static_cast<int>(ptx::cluster_rank());
    }

    // Row i of the team.
    __device__ static int64_t row(int i, const plan &s)
    {
        return team() + i * s.teams;
    }

    __device__ static int rows_of(const plan &s)
    {
        return static_cast<int>((s.shape.count - team() + s.teams - 1) / s.teams);
    }

    __device__ static rows::cut cut_of(const T *x, const plan &s)
    {
        return {x + int64_t{team()} * s.shape.n, s.shape.n, s.shape.lines};
    }

    // The element that a stage starts with, if there is one.
    __device__ static int origin_of(const rows::cut &cut, const plan &s)
    {
        return cut.head + (part() * s.shape.share - cut.lead) * kPackSize<T>;
    }

    // The elements of a row, packs alone, that the block has: from `begin` on, none if `count` is
    // not above 0. A stage starts with the one at `origin`.
    struct extent {
        int origin, begin, count;
    };

    __device__ static extent extent_of(const T *x, const plan &s)
    {
        rows::cut cut = cut_of(x, s);
        int origin = origin_of(cut, s), end = cut.head + cut.packs * kPackSize<T>;
        int begin = origin > cut.head ? origin : cut.head;
        int most = origin + s.shape.share * kPackSize<T>;
        return {origin, begin, (end < most ? end : most) - begin};
    }

    // Has what the block has of the first row come to the L2: by one thread.
    __device__ static void ask_early(const T *x, const plan &s)
    {
        extent of = extent_of(x, s);
        early::ask(x + row(0, s) * s.shape.n + of.begin, of.count);
    }

    // Has what the block has of row i of some tensors come to the stage: by one thread, which the
    // rest of the block does not wait for, and so keeps nothing for it.
    template <int kTensors>
    __device__ static void
    fetch(const T *const (&x)[kTensors], const plan &s, int i, char *stage, uint64_t *full)
    {
        auto [origin, begin, count] = extent_of(x[0], s);
        uint32_t bytes = count > 0 ? static_cast<uint32_t>(count) * uint32_t{sizeof(T)} : 0;
        uint32_t to = ptx::shared_address(stage) +
                      static_cast<uint32_t>(begin - origin) * uint32_t{sizeof(T)};
        uint32_t barrier = ptx::shared_address(full);
        ptx::barrier_expect(barrier, kTensors * bytes);
#pragma unroll
        for (int j = 0; j < kTensors; j++) {
            if (bytes > 0) {
                ptx::copy_bulk(
                    to + static_cast<uint32_t>(j * s.room), x[j] + row(i, s) * s.shape.n + begin,
                    bytes, barrier);
            }
        }
    }

    // Pack k of the thread in a stage; anything, if it has none.
    __device__ words pack(const char *stage, int k) const
    {
        words w = {};
        if (at.has(k)) {
            ptx::load_shared(
                ptx::shared_address(stage) + slot +
                    static_cast<uint32_t>(k * at.step) * uint32_t{sizeof(T)},
                w.word);
        }
        return w;
    }
};

// ---- exchange -----------------------------------------------------------------------------------

// A pair of floats of a row, of all threads of a cluster, by Combine (as rows::add). Rooms take
// turns: whoever sends for row i has read what all sent for row i - 2, and so all of them have read
// what was sent for row i - 4. A block alone sends nothing.
template <typename Combine> struct mail {
    static constexpr int kRooms = 4, kWarps = kThreads / rows::kWarp;

    float2 warps[2][kWarps];                     // of the warps of this block
    float2 blocks[kRooms][rows::kClusterBlocks]; // sent by the blocks
    uint64_t sent[kRooms];                       // count what they send

    // Before a barrier of the cluster, by all threads.
    __device__ void begin()
    {
        int thread = static_cast<int>(threadIdx.x);
        if (thread < kRooms * rows::kClusterBlocks) {
            blocks[thread / rows::kClusterBlocks][thread % rows::kClusterBlocks] = {
                Combine::identity(0), Combine::identity(1)};
        }
        if (thread < kRooms) {
            ptx::barrier_init(ptx::shared_address(&sent[thread]), 1);
        }
    }

    // Each warp puts what it has, the same in all lanes; behind a barrier of the block, its first
    // warp sends.
    __device__ void put(int i, const float (&v)[1][2])
    {
        if (threadIdx.x % rows::kWarp == 0) {
            warps[i & 1][threadIdx.x / rows::kWarp] = {v[0][0], v[0][1]};
        }
    }

    __device__ void send(int i)
    {
        static_assert(kWarps >= rows::kClusterBlocks, "each lane that sends has the pair");
        int lane = static_cast<int>(threadIdx.x), turn = i % kRooms;
        int count = static_cast<int>(ptx::cluster_size());
        float v[1][2];
        of_warps(i, lane, v);
        uint32_t barrier = ptx::shared_address(&sent[turn]);
        if (lane == 0) {
            ptx::barrier_expect(barrier, static_cast<uint32_t>(count) * uint32_t{sizeof(float2)});
        }
        if (lane < count) {
            uint32_t to = static_cast<uint32_t>(lane);
            float2 *entry = &blocks[turn][ptx::cluster_rank()];
            uint32_t there = ptx::address_in_block(barrier, to);
            ptx::send_cluster(
                ptx::address_in_block(ptx::shared_address(&entry->x), to), v[0][0], there);
            ptx::send_cluster(
                ptx::address_in_block(ptx::shared_address(&entry->y), to), v[0][1], there);
        }
        __syncwarp();
    }

    // The pair of all threads, once it is there.
    __device__ void get(int i, int parts, float (&v)[1][2])
    {
        int lane = static_cast<int>(threadIdx.x) % rows::kWarp, turn = i % kRooms;
        if (parts == 1) {
            of_warps(i, lane, v);
            return;
        }
        ptx::barrier_wait(ptx::shared_address(&sent[turn]), static_cast<uint32_t>(i / kRooms & 1));
        float2 entry = blocks[turn][lane % rows::kClusterBlocks];
        v[0][0] = entry.x;
        v[0][1] = entry.y;
        rows::reduce_lanes(v, rows::kClusterBlocks, Combine{});
    }

    // What the warps of this block have put, in all lanes.
    __device__ void of_warps(int i, int lane, float (&v)[1][2])
    {
        v[0][0] = Combine::identity(0);
        v[0][1] = Combine::identity(1);
        int from = lane % kWarps;
        if (from < static_cast<int>(blockDim.x) / rows::kWarp) {
            float2 mine = warps[i & 1][from];
            v[0][0] = mine.x;
            v[0][1] = mine.y;
        }
        rows::reduce_lanes(v, kWarps, Combine{});
    }
};

// ---- rows ---------------------------------------------------------------------------------------

// Goes over the `count` rows of this cluster. Work has
//
//     combine                   of pairs
//     fetch(i, stage, full)     has what the block has of row i come to the stage, counted by
//                               `full`: one thread
//     prepare()                 what is kept by column, while the first rows are on their way
//     look(i)                   asks for what else row i needs
//     next()                    what was asked for last is that of the row to be added up now, what
//                               was that until now is of the one before it
//     add_up(stage, v)          the pair of this warp over that row, in all lanes
//     finish(i, stage, v)       the pair of row i is there: the last use of it
template <typename Work>
__device__ inline void
over_rows(Work &work, int count, const plan &s, char *stages, mail<typename Work::combine> &room)
{
    __shared__ uint64_t full[kMostStages];
    int thread = static_cast<int>(threadIdx.x), bytes = Work::kTensors * s.room;
    bool fetches = thread == rows::kWarp;

    room.begin();
    if (thread == 0) {
        for (int i = 0; i < s.stages; i++) {
            ptx::barrier_init(ptx::shared_address(&full[i]), 1);
        }
    }
    ptx::barrier_init_fence();
    __syncthreads();
    if (fetches) {
        for (int i = 0; i < s.stages && i < count; i++) {
            work.fetch(i, stages + i * bytes, &full[i]);
        }
    }
    __syncwarp();
    if (s.parts > 1) {
        ptx::cluster_arrive();
    }
    work.prepare();
    work.look(0);
    if (s.parts > 1) {
        ptx::cluster_wait(); // the barriers of all blocks are there
    }

    int lag = s.parts > 1 ? 1 : 0;
    int now = 0, then = 0; // stages of rows i and i - lag
    uint32_t parity = 0;
#pragma unroll 1
    for (int i = 0; i < count + lag; i++) {
        float v[1][2];
        work.next();
        if (i + 1 < count) {
            work.look(i + 1);
        }
        if (i < count) {
            ptx::barrier_wait(ptx::shared_address(&full[now]), parity);
            work.add_up(stages + now * bytes, v);
            room.put(i, v);
            __syncthreads();
            if (s.parts > 1 && thread < rows::kWarp) {
                room.send(i);
            }
            now = now + 1 < s.stages ? now + 1 : 0;
            parity ^= now == 0;
        }
        if (i >= lag) {
            int done = i - lag;
            room.get(done, s.parts, v);
            work.finish(done, stages + then * bytes, v);
            __syncthreads();
            if (fetches && done + s.stages < count) {
                work.fetch(done + s.stages, stages + then * bytes, &full[then]);
            }
            __syncwarp();
            then = then + 1 < s.stages ? then + 1 : 0;
        }
    }
}

} // namespace aicf::steady

#endif
