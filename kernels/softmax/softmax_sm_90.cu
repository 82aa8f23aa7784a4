// softmax and log_softmax (cuda) where a row fits into a cluster: many rows of 16 bits by
// aicf/cuda/steady.cuh, else in its registers; see softmax.cuh.
#include "softmax.cuh"

#include <aicf/cuda/steady.cuh>

namespace aicf::AICF_OP {

AICF_ROWS_CLUSTER_KERNEL(operands, kMostPacks)

// ---- many rows ----------------------------------------------------------------------------------

using form = steady::form<8, 1, 1>;
// Rows of each multiprocessor: from how many on it pays, and does that two have one row, so that
// the first is there and the last is done earlier, no longer.
constexpr int64_t kSomeRows = 3, kManyRows = 16;

// Of a row: (largest, sum).
struct totals : soft::total {
    // By the largest of all: one power a lane.
    __device__ static void lanes(float (&v)[1][2], int width)
    {
        float top[1][1] = {{v[0][0]}};
        rows::reduce_lanes(top, width, soft::largest{});
        soft::scale to(soft::base_of(top[0][0]));
        float sum[1][1] = {{moved(v[0][0], v[0][1], to)}};
        rows::reduce_lanes(sum, width, rows::add{});
        v[0][0] = top[0][0];
        v[0][1] = sum[0][0];
    }
};

template <typename T> struct passing {
    using combine = totals;
    static constexpr int kTensors = form::kTensors;

    const operands<T> &p;
    const steady::plan &s;
    steady::place<T> mine;
    T coming = T(), edge = T(), edge_before = T();

    __device__ passing(const operands<T> &operands, const steady::plan &plan)
        : p(operands), s(plan), mine(operands.x, plan)
    {
    }

    __device__ void fetch(int i, char *stage, uint64_t *full) const
    {
        mine.fetch(p.x, s, i, stage, full);
    }

    __device__ void prepare()
    {
    }

    __device__ void look(int i)
    {
        coming = rows::edge_of(p.x + mine.row(i, s) * p.shape.n, mine.at);
    }

    __device__ void next()
    {
        edge_before = edge;
        edge = coming;
    }

    // Exponents are of the warp's largest: so one exchange is enough.
    __device__ void add_up(const char *stage, float (&v)[1][2]) const
    {
        rows::held<T, form::kPacks> x;
#pragma unroll
        for (int k = 0; k < form::kPacks; k++) {
            x.pack[k] = mine.pack(stage, k);
        }
        x.edge = edge;
        float top[1][1] = {{rows::largest(mine.at, x)}}, sum[1][1] = {};
        rows::reduce_lanes(top, rows::kWarp, soft::largest{});
        soft::scale power(soft::base_of(top[0][0]));
        rows::forget(x);
        rows::each(mine.at, [&](float e) { sum[0][0] += power(e); }, x);
        rows::reduce_lanes(sum, rows::kWarp, rows::add{});
        v[0][0] = top[0][0];
        v[0][1] = sum[0][0];
    }

    __device__ void finish(int i, const char *stage, const float (&v)[1][2]) const
    {
        map of(v[0][0], v[0][1]);
        T *out = p.out + mine.row(i, s) * p.shape.n;
        words next = mine.pack(stage, 0);
#pragma unroll
        for (int k = 0; k < form::kPacks; k++) {
            words now = next;
            if (k + 1 < form::kPacks) {
                next = mine.pack(stage, k + 1);
            }
            if (mine.at.has(k)) {
                rows::values<T> x;
                unpack(now, x.x, T{});
                rows::store_values(
                    out + mine.at.first + k * mine.at.step, true, rows::map_of(of, x).x);
            }
        }
        if (mine.at.edge >= 0) {
            out[mine.at.edge] = of_f32<T>(of(to_f32(s.parts > 1 ? edge_before : edge)));
        }
    }
};

template <typename T>
__global__ void
__launch_bounds__(steady::kThreads, form::kBlocks) pass(const operands<T> p, const steady::plan s)
{
    extern __shared__ __align__(kPackBytes) char stages[];
    __shared__ steady::mail<totals> room;
    rows::begin();
    passing<T> work(p, s);
    steady::over_rows(work, work.mine.rows_of(s), s, stages, room);
}

template <typename T>
aicf_status
launch(const operands<T> &p, aicf_stream stream)
{
    if constexpr (sizeof(T) == 2) {
        int64_t each = p.shape.count / rows::multiprocessors();
        steady::plan s;
        if (p.shape.n > 0 && each >= kSomeRows && phase_of(p.x) == phase_of(p.out) &&
            steady::plan_for<form>(pass<T>, p.shape, sizeof(T), s, each < kManyRows ? 2 : 1)) {
            return steady::launch<form>(pass<T>, s, stream, p, s);
        }
    }
    return rows::launch_cluster(cluster<T>, sizeof(T), kMostPacks, p, stream);
}

} // namespace aicf::AICF_OP

#define LAUNCHER(T, suffix)                                                             \
    aicf_status AICF_LAUNCHER_OF(AICF_OP, cluster, suffix)(                             \
        const T *x, T *out, int64_t L, int64_t N, int64_t, int64_t, aicf_stream stream) \
    {                                                                                   \
        return aicf::AICF_OP::launch(aicf::AICF_OP::operands_of(x, out, L, N), stream); \
    }

LAUNCHER(float, f32)
LAUNCHER(aicf_f16, f16)
LAUNCHER(aicf_bf16, bf16)
