// layer_norm_bwd and rms_norm_bwd (cuda) where a row fits into a cluster: see row_norm_bwd.cuh for
// what is computed. Of 16 bits by aicf/cuda/steady.cuh; f32, and tensors of several phases, by
// aicf/cuda/parts.cuh.
#include "row_norm_bwd.cuh"
#include "row_norm_bwd_words.cuh"

#include <aicf/cuda/coefficients.cuh>
#include <aicf/cuda/steady.cuh>

namespace aicf::AICF_OP {

// ---- rows of one phase --------------------------------------------------------------------------

using form = steady::form<4, 2, 1>;

// What a thread has that has an edge, in shared memory, since registers are scarce: its column, and
// the elements of the row that is added up and of the one before it.
template <typename T> struct edge_of_rows {
    columns_of<1> column;
    T gy[2], x[2];
};

// Where the mean is so few standard deviations from 0 that x * rstd - mean * rstd is as good as
// (x - mean) * rstd: an operation less.
constexpr float kFewDeviations = 8.0f;

__device__ inline bool
is_near_zero(const row_terms &t)
{
    return !kCentred || fabsf(t.mean) * t.rstd <= kFewDeviations;
}

// kNear: is_near_zero(t).
template <bool kNear>
__device__ inline float
deviations(const row_terms &t, float x)
{
    if (!kCentred) {
        return x * t.rstd;
    }
    return kNear ? fmaf(x, t.rstd, -t.mean * t.rstd) : (x - t.mean) * t.rstd;
}

template <typename T> struct passing {
    using combine = rows::add;
    static constexpr int kTensors = form::kTensors;
    using feed_of_rows = typename steady::place<T>::template feed<kTensors>;

    const operands<T> &p;
    const steady::plan &s;
    steady::place<T> mine;
    float share;
    words weight[form::kPacks];
    float gw[form::kPacks][kPackSize<T>], gb[form::kPacks][kPackSize<T>];
    edge_of_rows<T> &edge;
    feed_of_rows &rows_next;
    row_terms now, before, coming;
    T gy_coming = T(), x_coming = T();

    __device__ passing(
        const operands<T> &operands, const steady::plan &plan, const steady::spell &of,
        edge_of_rows<T> &room, feed_of_rows &next_rows)
        : p(operands), s(plan), mine(operands.x, plan, of), share(1.0f / static_cast<float>(p.N)),
          edge(room), rows_next(next_rows)
    {
    }

    __device__ void feed() const
    {
        rows_next = mine.template feed_of<kTensors>({p.gy, p.x}, s);
    }

    __device__ void fetch(int, const char *stage, uint64_t *full) const
    {
        mine.fetch(rows_next, s, stage, full);
    }

    __device__ void prepare()
    {
        const T *w = p.weight;
        float one[kPackSize<T>];
#pragma unroll
        for (float &v : one) {
            v = 1.0f;
        }
#pragma unroll
        for (int k = 0; k < form::kPacks; k++) {
            weight[k] = repack(one, T{});
            if (w && mine.has(k)) {
                weight[k] = coefficients::load(w + mine.at.first + k * mine.at.step, w, w + p.N);
            }
#pragma unroll
            for (int i = 0; i < kPackSize<T>; i++) {
                gw[k][i] = gb[k][i] = 0.0f;
            }
        }
        if (mine.at.edge >= 0) {
            edge.column.w[0] = p.weight ? to_f32(p.weight[mine.at.edge]) : 1.0f;
            edge.column.gw[0] = edge.column.gb[0] = 0.0f;
        }
    }

    __device__ void look(int i)
    {
        int64_t row = mine.row(i);
        coming.mean = kCentred ? p.mean[row] : 0.0f;
        coming.rstd = p.rstd[row];
        gy_coming = rows::edge_of(p.gy + row * p.N, mine.at);
        x_coming = rows::edge_of(p.x + row * p.N, mine.at);
    }

    __device__ void next()
    {
        before = now;
        now = coming;
        if (mine.at.edge >= 0) {
            edge.gy[1] = edge.gy[0];
            edge.x[1] = edge.x[0];
            edge.gy[0] = gy_coming;
            edge.x[0] = x_coming;
        }
    }

    __device__ void
    unpack_both(uint32_t first, int k, float (&gy)[kPackSize<T>], float (&x)[kPackSize<T>]) const
    {
        words of_gy = mine.pack(first, k), of_x = mine.pack(first + s.room, k);
        unpack(of_gy, gy, T{});
        unpack(of_x, x, T{});
    }

    __device__ void weights_of(int k, float (&w)[kPackSize<T>])
    {
        for (uint32_t &word : weight[k].word) {
            ptx::opaque(word); // else f32 of it are kept from one row to the next
        }
        unpack(weight[k], w, T{});
    }

    template <bool kNear>
    __device__ void add_packs(const row_terms &t, uint32_t first, float (&sum)[2])
    {
#pragma unroll
        for (int k = 0; k < form::kPacks; k++) {
            if (mine.has(k)) {
                float gy[kPackSize<T>], x[kPackSize<T>], w[kPackSize<T>];
                unpack_both(first, k, gy, x);
                weights_of(k, w);
#pragma unroll
                for (int i = 0; i < kPackSize<T>; i++) {
                    float q = gy[i] * w[i];
                    sum[0] += q;
                    sum[1] = fmaf(q, deviations<kNear>(t, x[i]), sum[1]);
                }
            }
        }
    }

    __device__ void add_up(const char *stage, float (&sum)[1][2])
    {
        row_terms t = now;
        sum[0][0] = sum[0][1] = 0.0f;
        if (is_near_zero(t)) {
            add_packs<true>(t, mine.in(stage), sum[0]);
        } else {
            add_packs<false>(t, mine.in(stage), sum[0]);
        }
        if (mine.at.edge >= 0) {
            float gy[1] = {to_f32(edge.gy[0])}, x[1] = {to_f32(edge.x[0])};
            AICF_OP::add_up(t, edge.column, gy, x, sum[0]);
        }
        rows::reduce_lanes(sum, rows::kWarp, combine{});
    }

    template <bool kNear> __device__ void finish_packs(const row_terms &t, uint32_t first, T *gx)
    {
#pragma unroll
        for (int k = 0; k < form::kPacks; k++) {
            if (mine.has(k)) {
                float gy[kPackSize<T>], x[kPackSize<T>], w[kPackSize<T>], v[kPackSize<T>];
                unpack_both(first, k, gy, x);
                weights_of(k, w);
#pragma unroll
                for (int i = 0; i < kPackSize<T>; i++) {
                    float q = gy[i] * w[i], h = deviations<kNear>(t, x[i]);
                    gw[k][i] = fmaf(gy[i], h, gw[k][i]);
                    gb[k][i] += gy[i];
                    v[i] = fmaf(h, t.second, fmaf(q, t.rstd, t.first));
                }
                if (gx) {
                    rows::store_values(gx + k * mine.at.step, true, v);
                }
            }
        }
    }

    __device__ void finish(int i, const char *stage, const float (&sum)[1][2])
    {
        row_terms t = s.parts > 1 ? before : now;
        T *gx = p.gx ? p.gx + mine.row(i) * p.N : nullptr, *packs = gx ? gx + mine.at.first : gx;
        t.first = kCentred ? -t.rstd * (sum[0][0] * share) : 0.0f;
        t.second = -t.rstd * (sum[0][1] * share);
        if (is_near_zero(t)) {
            finish_packs<true>(t, mine.in(stage), packs);
        } else {
            finish_packs<false>(t, mine.in(stage), packs);
        }
        if (mine.at.edge >= 0) {
            int lag = s.parts > 1 ? 1 : 0;
            float gy[1] = {to_f32(edge.gy[lag])}, x[1] = {to_f32(edge.x[lag])}, v[1];
            AICF_OP::finish(t, edge.column, gy, x, v);
            if (gx) {
                gx[mine.at.edge] = of_f32<T>(v[0]);
            }
        }
    }

    // kAdds: to what is there of an earlier spell.
    template <bool kAdds, int kCount>
    __device__ void save_kind(const float (&sum)[kCount], float *to) const
    {
        float all[kCount];
#pragma unroll
        for (int i = 0; i < kCount; i++) {
            all[i] = kAdds ? sum[i] + __ldcg(to + i) : sum[i];
        }
        if (kCount > 1 && reinterpret_cast<uintptr_t>(to) % kPackBytes == 0) {
            store_sums(to, all);
            return;
        }
#pragma unroll
        for (int i = 0; i < kCount; i++) {
            to[i] = all[i];
        }
    }

    template <bool kAdds, int kCount>
    __device__ void
    save_columns(const float (&of_gw)[kCount], const float (&of_gb)[kCount], int column) const
    {
        float *to = p.partial + mine.team() * kKinds * p.N + column;
        save_kind<kAdds>(of_gw, to);
        if (kCentred) {
            save_kind<kAdds>(of_gb, to + p.N);
        }
    }

    template <bool kAdds> __device__ void save() const
    {
#pragma unroll
        for (int k = 0; k < form::kPacks; k++) {
            if (mine.has(k)) {
                save_columns<kAdds>(gw[k], gb[k], mine.at.first + k * mine.at.step);
            }
        }
        if (mine.at.edge >= 0) {
            save_columns<kAdds>(edge.column.gw, edge.column.gb, mine.at.edge);
        }
    }
};

template <typename T>
__global__ void
__launch_bounds__(steady::kThreads, form::kBlocks) pass(const operands<T> p, const steady::plan s)
{
    extern __shared__ __align__(kPackBytes) char stages[];
    constexpr int kEdges = 2 * kPackSize<T>; // threads that may have one
    __shared__ steady::mail<rows::add> room;
    __shared__ edge_of_rows<T> edges[kEdges];
    __shared__ typename passing<T>::feed_of_rows rows_next;
    __shared__ steady::dealt rows_of;
    steady::progress at;
    rows::begin();
    if (threadIdx.x == 0) {
        rows_of = steady::dealt(s);
    }
    steady::each_spell(rows_of, s, [&] {
        bool adds = at.rows > 0;
        passing<T> work(p, s, rows_of.of, edges[threadIdx.x % kEdges], rows_next);
        steady::over_rows(work, rows_of.of.count, s, stages, room, at);
        if (p.partial && adds) {
            work.template save<true>();
        } else if (p.partial) {
            work.template save<false>();
        }
    });
}

// Whether rows are for `pass`, in teams that the workspace has room for.
template <typename T>
bool
plan_for(const operands<T> &p, int64_t most, steady::plan &s)
{
    rows::shape shape = {p.L, static_cast<int>(p.N), 0, false, 0};
    if (p.L == 0 || p.N == 0 || phase_of(p.gy) != phase_of(p.x) ||
        (p.gx && phase_of(p.gx) != phase_of(p.x)) ||
        !steady::plan_for<form>(pass<T>, shape, sizeof(T), s)) {
        return false;
    }
    s.teams = s.teams < most ? s.teams : steady::teams_for(shape, sizeof(T), most);
    steady::deal_by_spells(s, sizeof(T), most);
    return s.teams > 0;
}

template <typename T>
aicf_status
run_cluster(const operands<T> &p, const wanted<T> &out, aicf_stream stream)
{
    int64_t most = most_teams(p.L, p.N);
    if constexpr (sizeof(T) == 2) {
        steady::plan s;
        if (plan_for(p, most_teams(p.L, p.N, kClusterSums), s)) {
            return launch_both(p, out, s.teams, stream, [&] {
                return steady::launch<form>(pass<T>, s, stream, p, s);
            });
        }
    }
    parts::plan s = parts::plan_for<kWords<T>, 2>(p.L, p.N, sizeof(T));
    parts::blocks b = parts::blocks_of(s, stream);
    int64_t teams = parts::clusters_at_once(cluster<T>, b);
    teams = teams < most ? teams : most;
    return launch_both(
        p, out, teams, stream, [&] { return parts::launch(cluster<T>, teams, b, p, s); });
}

} // namespace aicf::AICF_OP

AICF_ROW_NORM_BWD_LAUNCHERS(cluster, aicf::AICF_OP::run_cluster)
