// Clusters that go over the rows of dense matrices (sm_90), each over a spell of rows of one phase,
// which start at the same place of 16 bytes, or over a few spells. So a thread has the same packs
// of all rows of a spell, and keeps what goes by column, of whatever phase, in registers.
//
// Rows come into shared memory, ahead, by copies of the whole packs that a block has; edges, single
// elements, are the first block's. Of a row a pair of floats is exchanged between the threads.
// Where a cluster has several blocks that is on its way while the next row is added up: a step adds
// up row i and finishes row i - 1. A block alone finishes the same row.
#ifndef AICF_CUDA_STEADY_CUH
#define AICF_CUDA_STEADY_CUH

#include <aicf/cuda/steady_plan.cuh>

namespace aicf::steady {

// ---- places -------------------------------------------------------------------------------------

// What a thread has of the rows of a spell, which lies where the whole block sees it: registers are
// scarce.
template <typename T> struct place {
    rows::span at;
    int packs;     // of a row
    uint32_t slot; // bytes from the start of a stage to the thread's first pack
    const spell &of;

    __device__ place(const T *x, const plan &s, const spell &rows) : of(rows)
    {
        rows::cut cut = cut_of(x, s);
        at = rows::span_of(
            x + of.first * s.shape.n, s.shape, static_cast<int>(threadIdx.x),
            static_cast<int>(blockDim.x), part());
        packs = at.first < at.end ? (at.end - at.first + at.step - 1) / at.step : 0;
        slot = static_cast<uint32_t>(at.first - origin_of(cut, s)) * uint32_t{sizeof(T)};
    }

    __device__ bool has(int k) const
    {
        return k < packs;
    }

    __device__ static int team()
    {
        return static_cast<int>(ptx::cluster_index());
    }

    __device__ static int part()
    {
        return static_cast<int>(ptx::cluster_rank());
    }

    // Row i of the spell.
    __device__ int64_t row(int i) const
    {
        return of.first + i * of.stride;
    }

    __device__ rows::cut cut_of(const T *x, const plan &s) const
    {
        return {x + of.first * s.shape.n, s.shape.n, s.shape.lines};
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

    __device__ extent extent_of(const T *x, const plan &s) const
    {
        rows::cut cut = cut_of(x, s);
        int origin = origin_of(cut, s), end = cut.head + cut.packs * kPackSize<T>;
        int begin = origin > cut.head ? origin : cut.head;
        int most = origin + s.shape.share * kPackSize<T>;
        return {origin, begin, (end < most ? end : most) - begin};
    }

    // Has what the block has of the first row come to the L2: by one thread.
    __device__ void ask_early(const T *x, const plan &s) const
    {
        extent has = extent_of(x, s);
        early::ask(x + row(0) * s.shape.n + has.begin, has.count);
    }

    // What the copies of a spell's rows are made of, for one thread of the block to keep: all but
    // the row is the same for each. Nobody waits for it as long as it has little to do.
    template <int kTensors> struct feed {
        const T *from[kTensors]; // of the row that is next
        int64_t pitch;           // elements to the next one
        uint32_t to, bytes;      // in a stage, and of a tensor
    };

    template <int kTensors>
    __device__ feed<kTensors> feed_of(const T *const (&x)[kTensors], const plan &s, int i = 0) const
    {
        auto [origin, begin, count] = extent_of(x[0], s);
        feed<kTensors> all;
#pragma unroll
        for (int j = 0; j < kTensors; j++) {
            all.from[j] = x[j] + row(i) * s.shape.n + begin;
        }
        all.pitch = of.stride * s.shape.n;
        all.to = static_cast<uint32_t>(begin - origin) * uint32_t{sizeof(T)};
        all.bytes = count > 0 ? static_cast<uint32_t>(count) * uint32_t{sizeof(T)} : 0;
        return all;
    }

    // Has what the block has of the next row of some tensors come to the stage.
    template <int kTensors>
    __device__ static void
    fetch(feed<kTensors> &next, const plan &s, const char *stage, uint64_t *full)
    {
        uint32_t to = ptx::shared_address(stage) + next.to, barrier = ptx::shared_address(full);
        uint32_t bytes = next.bytes;
        ptx::barrier_expect(barrier, kTensors * bytes);
#pragma unroll
        for (int j = 0; j < kTensors; j++) {
            const T *from = next.from[j];
            if (bytes > 0) {
                ptx::copy_bulk(to + static_cast<uint32_t>(j * s.room), from, bytes, barrier);
            }
            next.from[j] = from + next.pitch;
        }
    }

    // Has what the block has of row i of some tensors come to the stage: by one thread, which the
    // rest of the block does not wait for, and so keeps nothing for it.
    template <int kTensors>
    __device__ void
    fetch(const T *const (&x)[kTensors], const plan &s, int i, char *stage, uint64_t *full) const
    {
        feed<kTensors> once = feed_of(x, s, i);
        fetch(once, s, stage, full);
    }

    // Where the thread's first pack in a stage is, kept: else it is made anew for each pack.
    __device__ uint32_t in(const char *stage) const
    {
        uint32_t first = ptx::shared_address(stage) + slot;
        ptx::opaque(first);
        return first;
    }

    // Pack k of a row whose first one is at `first`; anything, if the thread has none.
    __device__ words pack(uint32_t first, int k) const
    {
        words w = {};
        if (has(k)) {
            ptx::load_shared(
                first + static_cast<uint32_t>(k * at.step) * uint32_t{sizeof(T)}, w.word);
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

// How far a block has come, over all of its spells.
struct progress {
    int rows = 0, stage = 0; // finished, and where the next one comes to
    uint32_t parity = 0;     // of that stage
};

// Goes over the `count` rows of a spell. Work has
//
//     combine                   of pairs
//     feed()                    before the first fetch: one thread
//     fetch(i, stage, full)     has what the block has of row i come to the stage, counted by
//                               `full`: that thread
//     prepare()                 what is kept by column, while the first rows are on their way
//     look(i)                   asks for what else row i needs
//     next()                    what was asked for last is that of the row to be added up now, what
//                               was that until now is of the one before it
//     add_up(stage, v)          the pair of this warp over that row, in all lanes
//     finish(i, stage, v)       the pair of row i is there: the last use of it
template <typename Work>
__device__ inline void
over_rows(
    Work &work, int count, const plan &s, char *stages, mail<typename Work::combine> &room,
    progress &at)
{
    __shared__ uint64_t full[kMostStages];
    int thread = static_cast<int>(threadIdx.x);
    bool fetches = thread == rows::kWarp, first = at.rows == 0;

    if (first) {
        room.begin();
        if (thread == 0) {
            for (int i = 0; i < s.stages; i++) {
                ptx::barrier_init(ptx::shared_address(&full[i]), 1);
            }
        }
        ptx::barrier_init_fence();
    }
    __syncthreads();
    if (fetches) {
        work.feed();
        for (int i = 0, to = at.stage; i < s.stages && i < count; i++) {
            work.fetch(i, stages + to * s.bytes, &full[to]);
            to = to + 1 < s.stages ? to + 1 : 0;
        }
    }
    __syncwarp();
    if (first && s.parts > 1) {
        ptx::cluster_arrive();
    }
    work.prepare();
    work.look(0);
    if (first && s.parts > 1) {
        ptx::cluster_wait(); // the barriers of all blocks are there
    }

    int lag = s.parts > 1 ? 1 : 0;
    int then = at.stage; // that of row i - lag
#pragma unroll 1
    for (int i = 0; i < count + lag; i++) {
        float v[1][2];
        work.next();
        if (i + 1 < count) {
            work.look(i + 1);
        }
        if (i < count) {
            ptx::barrier_wait(ptx::shared_address(&full[at.stage]), at.parity);
            work.add_up(stages + at.stage * s.bytes, v);
            room.put(at.rows + i, v);
            __syncthreads();
            if (s.parts > 1 && thread < rows::kWarp) {
                room.send(at.rows + i);
            }
            at.stage = at.stage + 1 < s.stages ? at.stage + 1 : 0;
            at.parity ^= at.stage == 0;
        }
        if (i >= lag) {
            int done = i - lag;
            room.get(at.rows + done, s.parts, v);
            work.finish(done, stages + then * s.bytes, v);
            __syncthreads();
            if (fetches && done + s.stages < count) {
                work.fetch(done + s.stages, stages + then * s.bytes, &full[then]);
            }
            __syncwarp();
            then = then + 1 < s.stages ? then + 1 : 0;
        }
    }
    at.rows += count;
}

} // namespace aicf::steady

#endif
