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

template <typename T> struct passing {
    using combine = rows::add;
    static constexpr int kTensors = form::kTensors;

    const operands<T> &p;
    const steady::plan &s;
    steady::place<T> mine;
    float share;
    words weight[form::kPacks];
    float gw[form::kPacks][kPackSize<T>], gb[form::kPacks][kPackSize<T>];
    edge_of_rows<T> &edge;
    row_terms now, before, coming;
    T gy_coming = T(), x_coming = T();

    __device__ passing(const operands<T> &operands, const steady::plan &plan, edge_of_rows<T> &room)
        : p(operands), s(plan), mine(operands.x, plan), share(1.0f / static_cast<float>(p.N)),
          edge(room)
    {
    }

    __device__ void fetch(int i, char *stage, uint64_t *full) const
    {
        mine.template fetch<2>({p.gy, p.x}, s, i, stage, full);
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
            if (w && mine.at.has(k)) {
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
        int64_t row = mine.row(i, s);
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
    unpack_both(const char *stage, int k, float (&gy)[kPackSize<T>], float (&x)[kPackSize<T>]) const
    {
        unpack(mine.pack(stage, k), gy, T{});
        unpack(mine.pack(stage + s.room, k), x, T{});
    }

    __device__ void weights_of(int k, float (&w)[kPackSize<T>])
    {
        for (uint32_t &word : weight[k].word) {
            ptx::opaque(word); // else f32 of it are kept from one row to the next
        }
        unpack(weight[k], w, T{});
    }

    __device__ void add_up(const char *stage, float (&sum)[1][2])
    {
        sum[0][0] = sum[0][1] = 0.0f;
#pragma unroll
        for (int k = 0; k < form::kPacks; k++) {
            if (mine.at.has(k)) {
                float gy[kPackSize<T>], x[kPackSize<T>];
                float w[kPackSize<T>];
                unpack_both(stage, k, gy, x);
                weights_of(k, w);
#pragma unroll
                for (int i = 0; i < kPackSize<T>; i++) {
                    float q = gy[i] * w[i], h = (x[i] - now.mean) * now.rstd;
                    sum[0][0] += q;
                    sum[0][1] = fmaf(q, h, sum[0][1]);
                }
            }
        }
        if (mine.at.edge >= 0) {
            float gy[1] = {to_f32(edge.gy[0])}, x[1] = {to_f32(edge.x[0])};
            AICF_OP::add_up(now, edge.column, gy, x, sum[0]);
        }
        rows::reduce_lanes(sum, rows::kWarp, combine{});
    }

    __device__ void finish(int i, const char *stage, const float (&sum)[1][2])
    {
        row_terms t = s.parts > 1 ? before : now;
        T *gx = p.gx + mine.row(i, s) * p.N;
        t.first = kCentred ? -t.rstd * (sum[0][0] * share) : 0.0f;
        t.second = -t.rstd * (sum[0][1] * share);
#pragma unroll
        for (int k = 0; k < form::kPacks; k++) {
            if (mine.at.has(k)) {
                float gy[kPackSize<T>], x[kPackSize<T>], v[kPackSize<T>];
                float w[kPackSize<T>];
                unpack_both(stage, k, gy, x);
                weights_of(k, w);
#pragma unroll
                for (int i = 0; i < kPackSize<T>; i++) {
                    float q = gy[i] * w[i], h = (x[i] - t.mean) * t.rstd;
                    gw[k][i] = fmaf(gy[i], h, gw[k][i]);
                    gb[k][i] += gy[i];
                    v[i] = fmaf(h, t.second, fmaf(q, t.rstd, t.first));
                }
                if (p.gx) {
                    rows::store_values(gx + mine.at.first + k * mine.at.step, true, v);
                }
            }
        }
        if (mine.at.edge >= 0) {
            int lag = s.parts > 1 ? 1 : 0;
            float gy[1] = {to_f32(edge.gy[lag])}, x[1] = {to_f32(edge.x[lag])}, v[1];
            AICF_OP::finish(t, edge.column, gy, x, v);
            if (p.gx) {
                gx[mine.at.edge] = of_f32<T>(v[0]);
            }
        }
    }

    template <int kCount>
    __device__ void
    save_columns(const float (&of_gw)[kCount], const float (&of_gb)[kCount], int column) const
    {
        float *to = p.partial + mine.team() * kKinds * p.N + column, *beside = to + p.N;
        if (kCount > 1 && (p.N | column) % 4 == 0) {
            store_sums(to, of_gw);
            if (kCentred) {
                store_sums(beside, of_gb);
            }
            return;
        }
#pragma unroll
        for (int i = 0; i < kCount; i++) {
            to[i] = of_gw[i];
            if (kCentred) {
                beside[i] = of_gb[i];
            }
        }
    }

    __device__ void save() const
    {
#pragma unroll
        for (int k = 0; k < form::kPacks; k++) {
            if (mine.at.has(k)) {
                save_columns(gw[k], gb[k], mine.at.first + k * mine.at.step);
            }
        }
        if (mine.at.edge >= 0) {
            save_columns(edge.column.gw, edge.column.gb, mine.at.edge);
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
    rows::begin();
    passing<T> work(p, s, edges[threadIdx.x % kEdges]);
    steady::over_rows(work, work.mine.rows_of(s), s, stages, room);
    if (p.partial) {
        work.save();
    }
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
