// Part of row_norm_sm_90.cu: aligned rows of whole slices, by clusters that go over them. A slice
// is what a warp has of all rows: as many packs to each of its lanes, whose weights stay in
// registers.
//
// A warp has its slices come to shared memory, several rows ahead, by copies of its own. It sums
// one about a number near its mean, found in its first pack, sends what it found to all warps and
// goes on when it has that of all: no barrier stops it. Where a cluster has several blocks, the
// next row is summed before a row is finished.
#ifndef AICF_KERNELS_ROW_NORM_SLICES_CUH
#define AICF_KERNELS_ROW_NORM_SLICES_CUH

#include "row_norm.cuh"

#include <aicf/cuda/parts.cuh>
#include <aicf/cuda/ptx_cluster.cuh>

namespace aicf::AICF_OP::slices {

constexpr int kLeastWarps = 12, kMostWarps = 16; // of a block
constexpr int kSliceRows = 4;                    // of each cluster, at least
// f32 by clusters of four, of which a group of multiprocessors has as many as another: all groups
// share the memory bandwidth, and the slowest cluster is waited for.
template <typename T> constexpr int kParts = sizeof(T) == 2 ? 1 : 4;
template <typename T> constexpr int kPacks = sizeof(T) == 2 ? 8 : 4; // of a lane
template <typename T> constexpr int kStages = sizeof(T) == 2 ? 3 : 6;
template <typename T> constexpr int kSlice = kPacks<T> * rows::kWarp * kPackSize<T>;
template <typename T> constexpr int kSliceBytes = kPacks<T> * rows::kWarp * kPackBytes;
template <typename T> constexpr int kShared = kMostWarps * kStages<T> * kSliceBytes<T>;

// Of a slice: its mean is near + shift, as exact as two floats are, `squares` about that.
struct summary {
    float near, shift, squares;
};

// What warps say of a row. Rooms take turns: whoever sends for row i has all of row i - 2, and so
// all have read those of row i - 4.
template <int kParts> struct mail {
    static constexpr int kRooms = 4, kMost = kParts * kMostWarps;

    float4 entries[kRooms][kMost]; // near, shift, squares of a summary
    uint64_t sent[kRooms];

    // By one thread.
    __device__ void begin()
    {
        for (uint64_t &barrier : sent) {
            ptx::barrier_init(
                ptx::shared_address(&barrier), kParts == 1 ? blockDim.x / rows::kWarp : 1);
        }
    }

    __device__ void send(int i, int slice, int slices, const summary &v)
    {
        uint32_t lane = threadIdx.x % rows::kWarp;
        uint32_t barrier = ptx::shared_address(&sent[i % kRooms]);
        uint32_t entry = ptx::shared_address(&entries[i % kRooms][slice]);
        float4 all = {v.near, v.shift, v.squares, 0.0f};
        if (kParts == 1 && lane == 0) {
            entries[i % kRooms][slice] = all;
            ptx::barrier_expect(barrier, 0);
        }
        if (kParts > 1 && threadIdx.x == 0) {
            ptx::barrier_expect(barrier, static_cast<uint32_t>(slices) * uint32_t{sizeof(float4)});
        }
        if (kParts > 1 && lane < kParts) {
            ptx::send_cluster(
                ptx::address_in_block(entry, lane), all, ptx::address_in_block(barrier, lane));
        }
        __syncwarp();
    }

    __device__ void wait(int i) const
    {
        ptx::barrier_wait(
            ptx::shared_address(&sent[i % kRooms]), static_cast<uint32_t>(i / kRooms & 1));
    }

    // The mean of the first slice, to take those of all others from.
    __device__ float near(int i) const
    {
        float4 first = entries[i % kRooms][0];
        return first.x + first.y;
    }

    // The sums over a row of x - near and of its square, in all lanes of all warps alike.
    template <int kSize>
    __device__ void get(int i, int slices, float near, float (&sum)[1][2]) const
    {
        int lane = static_cast<int>(threadIdx.x) % rows::kWarp;
        float d1 = 0.0f;
        sum[0][1] = 0.0f;
#pragma unroll
        for (int at = 0; at < kMost; at += rows::kWarp) {
            if (at + lane < slices) {
                float4 of = entries[i % kRooms][at + lane];
                float d = (of.x - near) + of.y;
                d1 += kCentred ? d : 0.0f;
                sum[0][1] += kCentred ? fmaf(d * kSize, d, of.z) : of.z;
            }
        }
        sum[0][0] = d1 * kSize;
        rows::reduce_lanes(sum, rows::kWarp, rows::add{});
    }
};

template <typename T> struct work {
    static constexpr int kSize = kPackSize<T>;
    // The square of how many standard deviations a first pack may be off: seldom more.
    static constexpr float kOff = 9.0f;

    const operands<T> &p;
    int lane, slice;
    uint32_t stages, full; // of the warp: addresses in shared memory
    weights<T> of[kPacks<T>];

    __device__
    work(const operands<T> &operands, const char *shared, const uint64_t (*barriers)[kStages<T>])
        : p(operands)
    {
        int warps = static_cast<int>(blockDim.x) / rows::kWarp;
        int warp = static_cast<int>(threadIdx.x) / rows::kWarp;
        int part = kParts<T> > 1 ? static_cast<int>(ptx::cluster_rank()) : 0;
        lane = static_cast<int>(threadIdx.x) % rows::kWarp;
        slice = part * warps + warp;
        stages =
            ptx::shared_address(shared) + static_cast<uint32_t>(warp * kStages<T> * kSliceBytes<T>);
        full = ptx::shared_address(barriers[warp]);
    }

    __device__ static int slices()
    {
        return kParts<T> * static_cast<int>(blockDim.x) / rows::kWarp;
    }

    __device__ const T *slice_of(int64_t row) const
    {
        return p.x + row * p.shape.n + slice * kSlice<T>;
    }

    __device__ uint32_t stage_at(int stage) const
    {
        return stages + static_cast<uint32_t>(stage * kSliceBytes<T>);
    }

    // Counts what comes to a stage.
    __device__ uint32_t barrier_at(int stage) const
    {
        return full + static_cast<uint32_t>(stage) * uint32_t{sizeof(uint64_t)};
    }

    // By one lane.
    __device__ void fetch(int64_t row, int stage) const
    {
        uint32_t barrier = barrier_at(stage);
        ptx::barrier_expect(barrier, kSliceBytes<T>);
        ptx::copy_bulk(stage_at(stage), slice_of(row), kSliceBytes<T>, barrier);
    }

    // What is not there weighs nothing.
    __device__ void prepare()
    {
        float one[kSize];
#pragma unroll
        for (float &w : one) {
            w = 1.0f;
        }
#pragma unroll
        for (int k = 0; k < kPacks<T>; k++) {
            int at = slice * kSlice<T> + (k * rows::kWarp + lane) * kSize;
            of[k].weight = p.weight ? coefficients::load_pack(p.weight + at) : repack(one, T{});
            if (kCentred) {
                of[k].bias = p.bias ? coefficients::load_pack(p.bias + at) : words{};
            }
        }
    }

    __device__ void load(uint32_t stage, int k, float (&x)[kSize]) const
    {
        words w;
        ptx::load_shared(
            stage + static_cast<uint32_t>((k * rows::kWarp + lane) * kPackBytes), w.word);
        unpack(w, x, T{});
    }

    // Of the slice, the sums of t's deviations and of their squares. kUnroll: few packs at a time
    // take few registers.
    template <int kUnroll>
    __device__ void add_up(uint32_t stage, const terms &t, float (&sum)[1][2]) const
    {
        float chains[2][kChains] = {};
#pragma unroll kUnroll
        for (int k = 0; k < kPacks<T>; k++) {
            float x[kSize];
            load(stage, k, x);
#pragma unroll
            for (int i = 0; i < kSize; i++) {
                float d = kCentred ? t.deviation(x[i]) : x[i] * t.scale;
                chains[0][i % kChains] += kCentred ? d : 0.0f;
                chains[1][i % kChains] = fmaf(d, d, chains[1][i % kChains]);
            }
        }
#pragma unroll
        for (int j = 0; j < 2; j++) {
            sum[0][j] = chains[j][0] + chains[j][1];
        }
        rows::reduce_lanes(sum, rows::kWarp, rows::add{});
    }

    // The slice's, of x * scale: summed again where the first pack is far from its mean.
    template <int kUnroll> __device__ summary sum_up(uint32_t stage, float scale) const
    {
        constexpr float kShare = 1.0f / kSlice<T>;
        float sum[1][2], shift, squares;
        terms t;
        t.scale = scale;
        if (!kCentred) {
            add_up<kUnroll>(stage, t, sum);
            return {0.0f, 0.0f, sum[0][1]};
        }
        words w;
        float x[kSize];
        ptx::load_shared(stage, w.word);
        unpack(w, x, T{});
        t.near = 0.25f * scale * x[0] + 0.25f * scale * x[1] + 0.25f * scale * x[2] +
                 0.25f * scale * x[3];
        bool again = false;
#pragma unroll 1
        do {
            t.near += again ? shift : 0.0f;
            add_up<kUnroll>(stage, t, sum);
            shift = sum[0][0] * kShare;
            squares = fmaxf(fmaf(-sum[0][0], shift, sum[0][1]), 0.0f);
            squares = sum[0][1] <= FLT_MAX ? squares : sum[0][1];
            again = !again && shift * shift > kOff * kShare * squares;
        } while (again);
        return {t.near, shift, squares};
    }

    // By what all have sent of row i of the cluster.
    __device__ void finish(
        int i, int64_t row, uint32_t stage, const mail<kParts<T>> &room, mail<kParts<T>> &more,
        int &times)
    {
        float sum[1][2];
        terms t;
        room.wait(i);
        t.near = kCentred ? room.near(i) : 0.0f;
        room.template get<kSlice<T>>(i, slices(), t.near, sum);
        t.template settle<T>(sum[0], p.share, p.eps);
        if (t.overflowed) { // all warps alike
            t.scale = kSmall;
            more.send(times, slice, slices(), sum_up<1>(stage, kSmall));
            more.wait(times);
            t.near = kCentred ? more.near(times) : 0.0f;
            more.template get<kSlice<T>>(times, slices(), t.near, sum);
            t.template settle<T>(sum[0], p.share, p.eps);
        }
        if (t.far) { // from the first slice's mean
            const mail<kParts<T>> &from = t.scale == 1.0f ? room : more;
            t.near += t.shift;
            from.template get<kSlice<T>>(t.scale == 1.0f ? i : times, slices(), t.near, sum);
            t.template settle<T>(sum[0], p.share, p.eps);
        }
        times += t.scale != 1.0f;
        write(t, stage, p.out + row * p.shape.n + slice * kSlice<T> + lane * kSize);
        if (threadIdx.x == 0 && slice == 0) {
            t.save(p, row);
        }
    }

    __device__ void write(const terms &t, uint32_t stage, T *out)
    {
#pragma unroll
        for (int k = 0; k < kPacks<T>; k++) {
            float x[kSize], y[kSize];
            load(stage, k, x);
            normalise(t, x, y);
            of[k].forget();
            of[k].apply(y);
            rows::store_values(out + k * rows::kWarp * kSize, true, y);
        }
    }
};

// Goes over the rows team, team + teams, ..., of which the first are on their way.
template <typename T>
__device__ inline void
over_rows(work<T> &mine, mail<kParts<T>> &room, mail<kParts<T>> &more, int team, int teams)
{
    constexpr int kLag = kParts<T> > 1 ? 1 : 0;
    int count = (static_cast<int>(mine.p.shape.count) - team + teams - 1) / teams;
    int times = 0, stage = 0; // of row i
    uint32_t parity = 0;      // of that stage
#pragma unroll 1
    for (int i = 0; i < count + kLag; i++) {
        if (kLag == 0 || i < count) {
            ptx::barrier_wait(mine.barrier_at(stage), parity);
            room.send(
                i, mine.slice, mine.slices(),
                mine.template sum_up<kPacks<T>>(mine.stage_at(stage), 1.0f));
        }
        if (i >= kLag) {
            int done = i - kLag, from = stage >= kLag ? stage - kLag : kStages<T> - kLag;
            mine.finish(done, team + int64_t{done} * teams, mine.stage_at(from), room, more, times);
            __syncwarp();
            if (mine.lane == 0 && done + kStages<T> < count) {
                mine.fetch(team + int64_t{done + kStages<T>} * teams, from);
            }
            __syncwarp();
        }
        stage = stage + 1 < kStages<T> ? stage + 1 : 0;
        parity ^= stage == 0;
    }
}

template <typename T>
__global__ void
__launch_bounds__(kMostWarps *rows::kWarp, 1) sliced(const operands<T> p)
{
    extern __shared__ __align__(128) char shared[];
    __shared__ uint64_t full[kMostWarps][kStages<T>];
    __shared__ mail<kParts<T>> room, more;
    int team = static_cast<int>(ptx::cluster_index());
    int teams = static_cast<int>(gridDim.x) / kParts<T>;
    work<T> mine(p, shared, full);
    ptx::let_next_launch_begin();
    if (mine.lane == 0) {
        early::ask(mine.slice_of(team), kSlice<T>);
        for (int i = 0; i < kStages<T>; i++) {
            ptx::barrier_init(mine.barrier_at(i), 1);
        }
    }
    if (threadIdx.x == 0) {
        room.begin();
        more.begin();
    }
    ptx::barrier_init_fence();
    __syncthreads();
    ptx::wait_for_launch_before();
    if (mine.lane == 0) {
        for (int i = 0; i < kStages<T> && team + i * teams < p.shape.count; i++) {
            mine.fetch(team + i * teams, i);
        }
    }
    __syncwarp();
    if (kParts<T> > 1) {
        ptx::cluster_arrive();
    }
    mine.prepare();
    if (kParts<T> > 1) {
        ptx::cluster_wait(); // the barriers of all blocks are there
    }
    over_rows(mine, room, more, team, teams);
}

// ---- launches -----------------------------------------------------------------------------------

template <typename T>
parts::blocks
blocks_for(int64_t N, aicf_stream stream)
{
    int64_t warps = N / (int64_t{kParts<T>} * kSlice<T>);
    return {kParts<T>, static_cast<unsigned>(warps * rows::kWarp), kShared<T>, stream};
}

template <typename T>
int64_t
teams_for()
{
    parts::blocks most = {kParts<T>, kMostWarps * rows::kWarp, kShared<T>, {}};
    return kParts<T> == 1 ? rows::multiprocessors() : parts::clusters_at_once(sliced<T>, most);
}

// Whether rows are slices alone, all on 16-byte boundaries, as wide as was measured, and many
// enough.
template <typename T>
bool
takes(const operands<T> &p, int64_t L, int64_t N)
{
    constexpr int64_t kStep = int64_t{kParts<T>} * kSlice<T>;
    return N % kStep == 0 && N >= kLeastWarps * kStep && N <= kMostWarps * kStep &&
           rows::all_aligned(p.x, static_cast<const T *>(p.out), p.weight, p.bias) &&
           L < kMostBlocks / 2 && L >= kSliceRows * teams_for<T>();
}

template <typename T>
aicf_status
run(const operands<T> &p, int64_t N, aicf_stream stream)
{
    int64_t teams = teams_for<T>();
    return parts::launch(
        sliced<T>, teams < p.shape.count ? teams : p.shape.count, blocks_for<T>(N, stream), p);
}

} // namespace aicf::AICF_OP::slices

#endif
