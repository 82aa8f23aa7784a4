// layer_norm and rms_norm (cuda) where a row fits into a cluster: see row_norm.cuh for what is
// computed, and aicf/cuda/steady.cuh; aligned rows of whole slices by row_norm_slices.cuh. Where x
// and out have not one phase, and of few rows, 16 bits are in the registers of a cluster
// (aicf/cuda/rows.cuh), f32 and its widest rows by aicf/cuda/parts.cuh.
#include "row_norm.cuh"
#include "row_norm_slices.cuh"
#include "row_norm_words.cuh"

#include <aicf/cuda/steady.cuh>

namespace aicf::AICF_OP {

// ---- rows of one phase --------------------------------------------------------------------------

using form = steady::form<8, 1, 1>;
constexpr int64_t kManyRows = 16; // of each multiprocessor, of 16 bits

template <typename T> struct passing {
    using combine = rows::add;
    static constexpr int kTensors = form::kTensors;

    const operands<T> &p;
    const steady::plan &s;
    steady::mail<rows::add> &more; // for rows that are taken again
    steady::place<T> mine;
    weights<T> of[form::kPacks];
    float weight = 1.0f, bias = 0.0f; // of the edge
    T coming = T(), edge_coming = T();
    float near = 0.0f, near_before = 0.0f;
    T edge = T(), edge_before = T();
    int times = 0;

    __device__ passing(
        const operands<T> &operands, const steady::plan &plan, const steady::spell &of,
        steady::mail<rows::add> &room)
        : p(operands), s(plan), more(room), mine(operands.x, plan, of)
    {
        more.begin();
    }

    __device__ void feed() const
    {
    }

    __device__ void fetch(int i, char *stage, uint64_t *full) const
    {
        mine.template fetch<1>({p.x}, s, i, stage, full);
    }

    __device__ void prepare()
    {
        bool even = weighed(p, p.x + mine.row(0) * p.shape.n); // then all at once
#pragma unroll
        for (int k = 0; k < form::kPacks; k++) {
            if (even && mine.has(k)) {
                of[k].load(p, mine.at.first + k * mine.at.step);
            }
        }
#pragma unroll
        for (int k = 0; k < form::kPacks; k++) {
            if (!even && mine.has(k)) {
                of[k].load_anywhere(p, mine.at.first + k * mine.at.step);
            }
        }
        if (mine.at.edge >= 0) {
            weight = p.weight ? coefficients::load_one(p.weight + mine.at.edge) : 1.0f;
            bias = kCentred && p.bias ? coefficients::load_one(p.bias + mine.at.edge) : 0.0f;
        }
    }

    // As it lies in memory: else a step would wait for it.
    __device__ void look(int i)
    {
        const T *x = p.x + mine.row(i) * p.shape.n;
        if (kCentred) {
            coming = AICF_OP::look(x, p.shape.n);
        }
        edge_coming = rows::edge_of(x, mine.at);
    }

    __device__ void next()
    {
        near_before = near;
        edge_before = edge;
        edge = edge_coming;
        if (kCentred) {
            float seen[1][1] = {{to_f32(coming)}};
            terms t[1];
            begin_near<T>(seen, t);
            near = t[0].near;
        }
    }

    // Of the deviations; where kScaled is false, t.scale is 1.
    template <bool kScaled>
    __device__ void sum_by(const char *stage, T at_edge, const terms &t, float (&sum)[1][2]) const
    {
        float chains[2][kChains] = {};
        auto take = [&](int chain, float v) {
            float d = kCentred ? t.deviation(v) : kScaled ? v * t.scale : v;
            chains[0][chain] += kCentred ? d : 0.0f;
            chains[1][chain] = fmaf(d, d, chains[1][chain]);
        };
        uint32_t first = mine.in(stage);
        words next = mine.pack(first, 0);
#pragma unroll
        for (int k = 0; k < form::kPacks; k++) {
            words now = next;
            if (k + 1 < form::kPacks) {
                next = mine.pack(first, k + 1);
            }
            if (mine.has(k)) {
                float x[kPackSize<T>];
                unpack(now, x, T{});
#pragma unroll
                for (int lane = 0; lane < kPackSize<T>; lane++) {
                    take(lane % kChains, x[lane]);
                }
            }
        }
        if (mine.at.edge >= 0) {
            take(0, to_f32(at_edge));
        }
#pragma unroll
        for (int j = 0; j < 2; j++) {
            sum[0][j] = chains[j][0] + chains[j][1];
        }
        rows::reduce_lanes(sum, rows::kWarp, rows::add{});
    }

    __device__ void add_up(const char *stage, float (&sum)[1][2]) const
    {
        terms t;
        t.near = near;
        sum_by<false>(stage, edge, t, sum);
    }

    template <bool kNear> __device__ void write_packs(const terms &t, const char *stage, T *out)
    {
        uint32_t first = mine.in(stage);
        words next = mine.pack(first, 0);
#pragma unroll
        for (int k = 0; k < form::kPacks; k++) {
            words now = next;
            if (k + 1 < form::kPacks) {
                next = mine.pack(first, k + 1);
            }
            if (mine.has(k)) {
                float x[kPackSize<T>], y[kPackSize<T>];
                unpack(now, x, T{});
                normalise<kNear>(t, x, y);
                of[k].forget();
                of[k].apply(y);
                rows::store_values(out + mine.at.first + k * mine.at.step, true, y);
            }
        }
    }

    __device__ void finish(int i, const char *stage, float (&sum)[1][2])
    {
        terms t;
        bool moved = false;
        t.near = s.parts > 1 ? near_before : near;
        T at_edge = s.parts > 1 ? edge_before : edge;
        t.template settle<T>(sum[0], p.share, p.eps);
#pragma unroll 1
        while (t.again(moved)) { // all blocks alike
            sum_by<true>(stage, at_edge, t, sum);
            more.put(times, sum);
            __syncthreads();
            if (s.parts > 1 && threadIdx.x < rows::kWarp) {
                more.send(times);
            }
            more.get(times, s.parts, sum);
            times++;
            t.template settle<T>(sum[0], p.share, p.eps);
        }

        T *out = p.out + mine.row(i) * p.shape.n;
        if (t.template is_near_zero<T>()) {
            write_packs<true>(t, stage, out);
        } else {
            write_packs<false>(t, stage, out);
        }
        if (mine.at.edge >= 0) {
            float x[1] = {to_f32(at_edge)}, y[1];
            normalise(t, x, y);
            y[0] = kCentred ? fmaf(y[0], weight, bias) : y[0] * weight;
            out[mine.at.edge] = of_f32<T>(y[0]);
        }
        if (threadIdx.x == 0 && mine.part() == 0) {
            t.save(p, mine.row(i));
        }
    }
};

template <typename T>
__global__ void
__launch_bounds__(steady::kThreads, form::kBlocks) pass(const operands<T> p, const steady::plan s)
{
    extern __shared__ __align__(kPackBytes) char stages[];
    __shared__ steady::mail<rows::add> room, more;
    steady::progress at;
    steady::spell of = steady::dealt(s).of; // the only one
    ptx::let_next_launch_begin();
    if (threadIdx.x == 0) {
        steady::place<T>(p.x, s, of).ask_early(p.x, s);
    }
    ptx::wait_for_launch_before();
    passing<T> work(p, s, of, more);
    steady::over_rows(work, of.count, s, stages, room, at);
}

// ---- rows in registers --------------------------------------------------------------------------

AICF_ROWS_CLUSTER_KERNEL(operands, kMostPacks)

// A cluster a row that fills it.
struct whole_cluster_team : rows::cluster_team {
    using place = rows::whole_span;

    template <typename T> __device__ place span_of(const T *, const rows::shape &, int64_t) const
    {
        constexpr int kSize = kPackSize<T>;
        int threads = static_cast<int>(blockDim.x);
        int begin = static_cast<int>(ptx::cluster_rank()) * threads * kMostPacks;
        return {(begin + static_cast<int>(threadIdx.x)) * kSize, threads * kSize, true};
    }
};

template <typename T>
__global__ void
__launch_bounds__(rows::kBlockPacks / kMostPacks, rows::kThreads *kMostPacks / rows::kBlockPacks)
    whole_cluster(const operands<T> p)
{
    whole_cluster_team team;
    rows::begin();
    body<kMostPacks, 1>(p, team);
}

// A block a row that fills it, so that nobody waits for another multiprocessor.
constexpr int kWideBlock = 512;

template <typename T>
__global__ void
__launch_bounds__(kWideBlock, 2) wide_block(const operands<T> p)
{
    wide_block_team team;
    rows::begin();
    body<kMostPacks, 1>(p, team);
}

template <typename T>
aicf_status
run_held_by_clusters(const operands<T> &p, int64_t L, int64_t N, aicf_stream stream)
{
    int64_t packs = N / kPackSize<T>;
    unsigned parts = 2;
    while (parts < rows::kClusterBlocks && packs > int64_t{parts} * rows::kBlockPacks) {
        parts *= 2;
    }
    int64_t threads = packs / (parts * kMostPacks);
    if (filled(p, N) && packs == kWideBlock * kMostPacks && L <= kMostBlocks) {
        return launch_waiting(wide_block<T>, static_cast<unsigned>(L), kWideBlock, 0, stream, p);
    }
    if (filled(p, N) && packs % (parts * kMostPacks * rows::kWarp) == 0 &&
        L <= kMostBlocks / parts) {
        return rows::start_clusters(
            whole_cluster<T>, static_cast<unsigned>(L) * parts, static_cast<unsigned>(threads),
            parts, stream, p);
    }
    return rows::launch_cluster(cluster<T>, sizeof(T), kMostPacks, p, stream);
}

// ---- launches -----------------------------------------------------------------------------------

template <typename T>
aicf_status
run_cluster(const operands<T> &p, int64_t L, int64_t N, aicf_stream stream)
{
    steady::plan s;
    if (L == 0 || N == 0) {
        return aicf_ok();
    }
    if (slices::takes(p, L, N)) {
        return slices::run(p, N, stream);
    }
    // Of few rows the first and the last would take too much of the time.
    bool few = sizeof(T) == 2 && L < kManyRows * rows::multiprocessors();
    if (!few && phase_of(p.x) == phase_of(p.out) &&
        steady::plan_for<form>(pass<T>, p.shape, sizeof(T), s) &&
        (sizeof(T) == 2 || s.parts <= 2)) {
        return steady::launch<form>(pass<T>, s, stream, p, s);
    }
    if constexpr (sizeof(T) == 2) {
        return run_held_by_clusters(p, L, N, stream);
    } else {
        return run_words(p, L, N, stream);
    }
}

} // namespace aicf::AICF_OP

AICF_ROW_NORM_LAUNCHERS(cluster, aicf::AICF_OP::run_cluster)
