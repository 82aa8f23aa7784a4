// layer_norm_bwd and rms_norm_bwd (cuda) where a row fits into a cluster: see row_norm_bwd.cuh for
// what is computed.
//
// A block has the same columns of all of its cluster's rows, their gw and gb in registers. Rows
// come into shared memory, several ahead, by copies of the whole 16 bytes that they lie across, so
// from any address. While the blocks exchange the sums of one row, they add up those of the next:
// a step sums row i and finishes row i - 1.
#include "row_norm_bwd.cuh"

#include <aicf/cuda/lanes.cuh>

namespace aicf::AICF_OP {

constexpr int kThreads = 512, kWarps = kThreads / rows::kWarp;
constexpr int kMostStages = 6, kLeastStages = 3;
constexpr int kStageBytes = 200 * 1024; // of all stages
constexpr int kWordBytes = 4;           // a thread has the words rank, rank + kThreads, ...
template <typename T> constexpr int kPer = kWordBytes / static_cast<int>(sizeof(T));
template <typename T> constexpr int kWords = kColumns / kPer<T>;

struct plan {
    int share;  // columns of a block at most
    int stages; // rows of which parts are in shared memory
    int pitch;  // bytes of what a stage has of gy, then of x
};

// ---- shared memory ------------------------------------------------------------------------------

// Sums of q and of q * h.
struct exchange {
    float2 warps[2][kWarps];                // of the warps of this block, by the row's parity
    float2 blocks[2][rows::kClusterBlocks]; // of the blocks, sent by them
    uint64_t sent[2];                       // counts what they send
    uint64_t full[kMostStages];             // counts what comes into a stage
};

__device__ inline int
phase(const void *p)
{
    return static_cast<int>(reinterpret_cast<uintptr_t>(p) % kPackBytes);
}

// The part [from, from + columns) of a tensor of `count` elements on its way to a stage, where it
// has the phase that it has in memory.
template <typename T> struct transfer {
    const T *from, *end;
    const char *begin, *stop; // what is copied: as much of the packs as lies in the tensor

    __device__ transfer(const T *tensor, int64_t count, int64_t at, int columns)
        : from(tensor + at), end(from + columns)
    {
        const char *low = reinterpret_cast<const char *>(tensor);
        const char *high = reinterpret_cast<const char *>(tensor + count);
        begin = reinterpret_cast<const char *>(from) - phase(from);
        begin += begin < low ? kPackBytes : 0;
        stop = reinterpret_cast<const char *>(end);
        stop += (kPackBytes - phase(end)) % kPackBytes;
        stop -= stop > high ? kPackBytes : 0;
        stop = stop < begin ? begin : stop;
    }

    __device__ uint32_t bytes() const
    {
        return static_cast<uint32_t>(stop - begin);
    }

    __device__ void copy(char *to, uint32_t barrier) const
    {
        const char *origin = reinterpret_cast<const char *>(from) - phase(from);
        if (bytes() == 0) {
            return;
        }
        ptx::copy_bulk(ptx::shared_address(to + (begin - origin)), begin, bytes(), barrier);
    }

    // The elements that no whole pack of the tensor has, in its first row or its last.
    __device__ void copy_ends(char *to, int lane) const
    {
        T *row = reinterpret_cast<T *>(to + phase(from));
        const T *head = reinterpret_cast<const T *>(begin);
        const T *tail = reinterpret_cast<const T *>(stop);
        if (head <= from && end <= tail) {
            return;
        }
        if (from + lane < head && from + lane < end) {
            row[lane] = from[lane];
        }
        if (tail + lane < end) {
            row[tail - from + lane] = tail[lane];
        }
        ptx::copy_bulk_fence();
    }
};

// ---- words --------------------------------------------------------------------------------------

// The columns of a word in shared memory; kOdd: it may lie across two.
template <bool kOdd, typename T>
__device__ inline void
read(const char *at, float (&v)[kPer<T>], T)
{
    if constexpr (kOdd && kPer<T> == 2) {
        v[0] = to_f32(*reinterpret_cast<const T *>(at));
        v[1] = to_f32(*reinterpret_cast<const T *>(at + sizeof(T)));
    } else {
        unpack_word(*reinterpret_cast<const uint32_t *>(at), v, T{});
    }
}

// Writes v to out and its neighbours, for all lanes of a warp, where out is not on a word's
// boundary: by words all the same, each of two lanes. `there`: whether this lane and the next one
// have any.
template <typename T>
__device__ inline void
write_across(T *out, const float (&v)[2], bool there, bool next)
{
    int lane = static_cast<int>(threadIdx.x) % rows::kWarp;
    float pair[2] = {v[1], __shfl_down_sync(0xffffffff, v[0], 1)};
    if (there && lane == 0) {
        out[0] = of_f32<T>(v[0]);
    }
    if (there && next && lane < rows::kWarp - 1) {
        *reinterpret_cast<uint32_t *>(out + 1) = pack_word(pair, T{});
    } else if (there) {
        out[1] = of_f32<T>(v[1]);
    }
}

// ---- a block's columns --------------------------------------------------------------------------

// What stays of a column; beside the words the last column of a row of odd length, of one thread.
template <int kCount> struct columns_of {
    float w[kCount], gw[kCount], gb[kCount];
};

struct row_terms {
    float mean, rstd;
};

// What a row's gx is made of.
struct row_means {
    float first, second; // -rstd * mean of q, -rstd * mean of q * h
};

template <int kCount>
__device__ inline void
add_up(
    const row_terms &t, const float (&w)[kCount], const float (&gy)[kCount],
    const float (&x)[kCount], float (&sum)[2])
{
#pragma unroll
    for (int i = 0; i < kCount; i++) {
        float q = gy[i] * w[i], h = (x[i] - t.mean) * t.rstd;
        sum[0] += q;
        sum[1] = fmaf(q, h, sum[1]);
    }
}

template <int kCount>
__device__ inline void
finish(
    const row_terms &t, const row_means &m, const float (&w)[kCount], float (&gw)[kCount],
    float (&gb)[kCount], float (&gy)[kCount], const float (&x)[kCount])
{
#pragma unroll
    for (int i = 0; i < kCount; i++) {
        float q = gy[i] * w[i], h = (x[i] - t.mean) * t.rstd;
        gw[i] = fmaf(gy[i], h, gw[i]);
        gb[i] += gy[i];
        gy[i] = fmaf(h, m.second, fmaf(q, t.rstd, m.first));
    }
}

// A block of a cluster: the columns [first, first + count) of rows.
template <typename T> struct part {
    const operands<T> &p;
    int64_t first;
    int count, words;
    columns_of<kPer<T>> of[kWords<T>];
    columns_of<1> last; // of a row of odd length, of one thread

    __device__ part(const operands<T> &operands, int share)
        : p(operands), first(int64_t{ptx::cluster_rank()} * share)
    {
        int64_t rest = p.N > first ? p.N - first : 0;
        count = rest < share ? static_cast<int>(rest) : share;
        words = count / kPer<T>;
        each([&](int k, int column) {
#pragma unroll
            for (int i = 0; i < kPer<T>; i++) {
                of[k].w[i] = p.weight ? to_f32(p.weight[first + column + i]) : 1.0f;
            }
        });
        last.w[0] = has_last() && p.weight ? to_f32(p.weight[p.N - 1]) : 1.0f;
#pragma unroll
        for (int k = 0; k < kWords<T>; k++) {
#pragma unroll
            for (int i = 0; i < kPer<T>; i++) {
                of[k].gw[i] = of[k].gb[i] = 0.0f;
            }
        }
        last.gw[0] = last.gb[0] = 0.0f;
    }

    __device__ bool has_last() const
    {
        return count % kPer<T> != 0 && threadIdx.x == kThreads - 1;
    }

    // Calls f(k, column) for the words of this thread.
    template <typename Function> __device__ void each(Function f)
    {
        int rank = static_cast<int>(threadIdx.x);
#pragma unroll
        for (int k = 0; k < kWords<T>; k++) {
            if (rank + k * kThreads < words) {
                f(k, (rank + k * kThreads) * kPer<T>);
            }
        }
    }

    __device__ int64_t at(int64_t row) const
    {
        return row * p.N + first;
    }

    __device__ row_terms terms(int64_t row) const
    {
        return {kCentred ? p.mean[row] : 0.0f, p.rstd[row]};
    }

    // By one warp.
    __device__ void fetch(int64_t row, char *stage, int pitch, uint64_t *full) const
    {
        int lane = static_cast<int>(threadIdx.x) % rows::kWarp;
        if (count == 0) { // more blocks than columns
            if (lane == 0) {
                ptx::barrier_expect(ptx::shared_address(full), 0);
            }
            return;
        }
        transfer<T> gy(p.gy, p.L * p.N, at(row), count), x(p.x, p.L * p.N, at(row), count);
        if (lane == 0) {
            uint32_t barrier = ptx::shared_address(full);
            ptx::barrier_expect(barrier, gy.bytes() + x.bytes());
            gy.copy(stage, barrier);
            x.copy(stage + pitch, barrier);
        }
        gy.copy_ends(stage, lane);
        x.copy_ends(stage + pitch, lane);
    }

    template <bool kOdd>
    __device__ void add_up(const char *gy_at, const char *x_at, const row_terms &t, float (&sum)[2])
    {
        each([&](int k, int column) {
            float gy[kPer<T>], x[kPer<T>];
            read<kOdd>(gy_at + column * sizeof(T), gy, T{});
            read<kOdd>(x_at + column * sizeof(T), x, T{});
            AICF_OP::add_up(t, of[k].w, gy, x, sum);
        });
        if (kPer<T> > 1 && has_last()) {
            float gy[1] = {to_f32(reinterpret_cast<const T *>(gy_at)[count - 1])};
            float x[1] = {to_f32(reinterpret_cast<const T *>(x_at)[count - 1])};
            AICF_OP::add_up(t, last.w, gy, x, sum);
        }
    }

    template <bool kOdd>
    __device__ void
    finish(const char *gy_at, const char *x_at, const row_terms &t, const row_means &m, T *gx)
    {
        int rank = static_cast<int>(threadIdx.x), warp = rank / rows::kWarp * rows::kWarp;
        bool across = kOdd && phase(gx) % kWordBytes != 0;
#pragma unroll
        for (int k = 0; k < kWords<T>; k++) {
            int word = rank + k * kThreads, column = word * kPer<T>;
            bool there = word < words;
            if (warp + k * kThreads < words) {
                float gy[kPer<T>] = {}, x[kPer<T>];
                if (there) {
                    read<kOdd>(gy_at + column * sizeof(T), gy, T{});
                    read<kOdd>(x_at + column * sizeof(T), x, T{});
                    AICF_OP::finish(t, m, of[k].w, of[k].gw, of[k].gb, gy, x);
                }
                if constexpr (kOdd && kPer<T> == 2) {
                    if (p.gx && across) {
                        write_across(gx + column, gy, there, word + 1 < words);
                    }
                }
                if (p.gx && there && !across) {
                    *reinterpret_cast<uint32_t *>(gx + column) = pack_word(gy, T{});
                }
            }
        }
        if (kPer<T> > 1 && has_last()) {
            float gy[1] = {to_f32(reinterpret_cast<const T *>(gy_at)[count - 1])};
            float x[1] = {to_f32(reinterpret_cast<const T *>(x_at)[count - 1])};
            AICF_OP::finish(t, m, last.w, last.gw, last.gb, gy, x);
            if (p.gx) {
                gx[count - 1] = of_f32<T>(gy[0]);
            }
        }
    }

    __device__ void save(int64_t team)
    {
        float *gw = p.partial + team * kKinds * p.N + first, *gb = gw + p.N;
        each([&](int k, int column) {
#pragma unroll
            for (int i = 0; i < kPer<T>; i++) {
                gw[column + i] = of[k].gw[i];
                if (kCentred) {
                    gb[column + i] = of[k].gb[i];
                }
            }
        });
        if (has_last()) {
            gw[count - 1] = last.gw[0];
            if (kCentred) {
                gb[count - 1] = last.gb[0];
            }
        }
    }
};

// Whether words of a row's part start where words of memory do.
template <typename T>
__device__ inline bool
odd(const operands<T> &p, int64_t at)
{
    return kPer<T> > 1 && ((phase(p.gy + at) | phase(p.x + at) | phase(p.gx + at)) & 2);
}

template <typename T>
__global__ void
__launch_bounds__(kThreads, 1) cluster(const operands<T> p, const plan s)
{
    extern __shared__ __align__(kPackBytes) char stages[];
    __shared__ exchange room;
    int thread = static_cast<int>(threadIdx.x), warp = thread / rows::kWarp;
    int lane = thread % rows::kWarp, blocks = static_cast<int>(ptx::cluster_size());
    int64_t team = blockIdx.x / static_cast<unsigned>(blocks);
    int64_t teams = gridDim.x / static_cast<unsigned>(blocks);
    int64_t count = team < p.L ? (p.L - team + teams - 1) / teams : 0; // rows of this team
    float share = 1.0f / static_cast<float>(p.N);
    part<T> mine(p, s.share);

    if (thread < 2 * rows::kClusterBlocks) {
        room.blocks[thread / rows::kClusterBlocks][thread % rows::kClusterBlocks] = {0.0f, 0.0f};
    }
    if (thread == 0) {
        for (int i = 0; i < 2; i++) {
            ptx::barrier_init(ptx::shared_address(&room.sent[i]), 1);
        }
        for (int i = 0; i < s.stages; i++) {
            ptx::barrier_init(ptx::shared_address(&room.full[i]), 1);
        }
        ptx::barrier_init_fence();
    }
    __syncthreads();
    if (warp == 1) {
        for (int i = 0; i < s.stages && i < count; i++) {
            mine.fetch(team + i * teams, stages + i * 2 * s.pitch, s.pitch, &room.full[i]);
        }
        __syncwarp();
    }
    ptx::cluster_arrive();
    row_terms now = {}, before = {}, next = {};
    if (count > 0) {
        now = mine.terms(team);
    }
    ptx::cluster_wait(); // the barriers of all blocks are there, and the ends of this one's rows

    int slot = 0, slot_before = 0;
    uint32_t full_parity = 0;
#pragma unroll 1
    for (int64_t i = 0; i <= count && count > 0; i++) {
        int64_t row = team + i * teams, row_before = row - teams;
        int turn = static_cast<int>(i & 1);
        if (i + 1 < count) {
            next = mine.terms(row + teams);
        }
        if (i < count) {
            ptx::barrier_wait(ptx::shared_address(&room.full[slot]), full_parity);
            const char *stage = stages + slot * 2 * s.pitch;
            const char *gy = stage + phase(p.gy + mine.at(row));
            const char *x = stage + s.pitch + phase(p.x + mine.at(row));
            float sum[1][2] = {};
            if (odd(p, mine.at(row))) {
                mine.template add_up<true>(gy, x, now, sum[0]);
            } else {
                mine.template add_up<false>(gy, x, now, sum[0]);
            }
            rows::reduce_lanes(sum, rows::kWarp, rows::add{});
            if (lane == 0) {
                room.warps[turn][warp] = {sum[0][0], sum[0][1]};
            }
        }
        if (i > 0) {
            ptx::barrier_wait(
                ptx::shared_address(&room.sent[turn ^ 1]), static_cast<uint32_t>(i - 1) >> 1 & 1);
            float first = 0.0f, second = 0.0f;
#pragma unroll
            for (int from = 0; from < rows::kClusterBlocks; from++) {
                first += room.blocks[turn ^ 1][from].x;
                second += room.blocks[turn ^ 1][from].y;
            }
            row_means m = {
                kCentred ? -before.rstd * (first * share) : 0.0f, -before.rstd * (second * share)};
            const char *stage = stages + slot_before * 2 * s.pitch;
            const char *gy = stage + phase(p.gy + mine.at(row_before));
            const char *x = stage + s.pitch + phase(p.x + mine.at(row_before));
            T *gx = p.gx + mine.at(row_before);
            if (odd(p, mine.at(row_before))) {
                mine.template finish<true>(gy, x, before, m, gx);
            } else {
                mine.template finish<false>(gy, x, before, m, gx);
            }
        }
        __syncthreads();
        if (warp == 0 && i < count) {
            float2 from = lane < kWarps ? room.warps[turn][lane] : float2{0.0f, 0.0f};
            float sum[1][2] = {{from.x, from.y}};
            rows::reduce_lanes(sum, kWarps, rows::add{});
            uint32_t barrier = ptx::shared_address(&room.sent[turn]);
            if (lane == 0) {
                ptx::barrier_expect(
                    barrier, static_cast<uint32_t>(blocks) * uint32_t{sizeof(float2)});
            }
            if (lane < blocks) {
                uint32_t to = static_cast<uint32_t>(lane);
                float2 *entry = &room.blocks[turn][ptx::cluster_rank()];
                ptx::send_cluster(
                    ptx::address_in_block(ptx::shared_address(&entry->x), to), sum[0][0],
                    ptx::address_in_block(barrier, to));
                ptx::send_cluster(
                    ptx::address_in_block(ptx::shared_address(&entry->y), to), sum[0][1],
                    ptx::address_in_block(barrier, to));
            }
        }
        if (warp == 1 && i > 0 && i - 1 + s.stages < count) {
            mine.fetch(
                row_before + s.stages * teams, stages + slot_before * 2 * s.pitch, s.pitch,
                &room.full[slot_before]);
        }
        before = now;
        now = next;
        slot_before = slot;
        slot = slot + 1 < s.stages ? slot + 1 : 0;
        full_parity ^= slot == 0;
    }
    ptx::let_next_launch_begin();
    if (p.partial) {
        mine.save(team);
    }
}

// Clusters of 2, 4 or 8 blocks.
template <typename T>
aicf_status
run_cluster(const operands<T> &p, const wanted<T> &out, aicf_stream stream)
{
    constexpr int kMostBytes = kLeastStages * 2 * (kThreads * kColumns * 4 + 2 * kPackBytes);
    static_assert(kMostBytes <= kStageBytes, "what is allowed is enough");
    int parts = 2;
    while (parts < rows::kClusterBlocks && p.N > int64_t{parts} * kThreads * kColumns) {
        parts *= 2;
    }
    plan s;
    s.share = static_cast<int>(ceil_div(ceil_div(p.N, parts), kPackBytes) * kPackBytes);
    int64_t bytes = s.share * int64_t{sizeof(T)} + 2 * kPackBytes;
    s.pitch = static_cast<int>(bytes);
    s.stages = kStageBytes / (2 * s.pitch);
    s.stages = s.stages < kMostStages ? s.stages : kMostStages;
    int64_t teams = columns::clusters(parts), most = most_teams(p.L, p.N);
    teams = teams < most ? teams : most;
    aicf_status status = allow_shared(cluster<T>, kStageBytes);
    if (status.kind) {
        return status;
    }
    return launch_both(p, out, teams, stream, [&] {
        return aicf::launch_cluster(
            cluster<T>, static_cast<unsigned>(teams * parts), kThreads,
            static_cast<unsigned>(parts), static_cast<size_t>(s.stages) * 2 * s.pitch, stream, p,
            s);
    });
}

} // namespace aicf::AICF_OP

AICF_ROW_NORM_BWD_LAUNCHERS(cluster, aicf::AICF_OP::run_cluster)
