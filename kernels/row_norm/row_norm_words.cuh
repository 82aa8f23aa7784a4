// Part of row_norm_sm_90.cu: rows that come to shared memory by aicf/cuda/parts.cuh, words of them.
#ifndef AICF_KERNELS_ROW_NORM_WORDS_CUH
#define AICF_KERNELS_ROW_NORM_WORDS_CUH

#include "row_norm.cuh"

#include <aicf/cuda/parts.cuh>

namespace aicf::AICF_OP {

using parts::kPer;
constexpr int kWords = 16; // of a thread

template <int kCount> struct columns_of {
    float w[kCount], b[kCount];
};

// What a block does with its columns of the rows team, team + teams, ...
template <typename T> struct work {
    const operands<T> &p;
    parts::mail &more; // for rows that are taken again
    int64_t team, teams, times = 0;
    parts::part<T, kWords> mine;
    columns_of<kPer<T>> of[kWords];
    columns_of<1> last;
    T coming = T();
    terms now, before;

    __device__ work(
        const operands<T> &operands, const parts::plan &s, parts::mail &room, int64_t index,
        int64_t all)
        : p(operands), more(room), team(index), teams(all), mine(operands.shape.n, s.share)
    {
        mine.each([&](int k, int column) {
#pragma unroll
            for (int i = 0; i < kPer<T>; i++) {
                weigh(of[k].w[i], of[k].b[i], mine.first + column + i);
            }
        });
        if (mine.has_last()) {
            weigh(last.w[0], last.b[0], p.shape.n - 1);
        }
        more.begin();
    }

    __device__ void weigh(float &w, float &b, int64_t column) const
    {
        w = p.weight ? to_f32(p.weight[column]) : 1.0f;
        b = kCentred && p.bias ? to_f32(p.bias[column]) : 0.0f;
    }

    __device__ int64_t row(int64_t i) const
    {
        return team + i * teams;
    }

    // The first of the block's elements of row i of this team.
    __device__ int64_t at(int64_t i) const
    {
        return row(i) * p.shape.n + mine.first;
    }

    __device__ void fetch(int64_t i, char *stage, uint64_t *full) const
    {
        int lane = static_cast<int>(threadIdx.x) % rows::kWarp;
        uint32_t barrier = ptx::shared_address(full);
        if (mine.count == 0) { // more blocks than columns
            if (lane == 0) {
                ptx::barrier_expect(barrier, 0);
            }
            return;
        }
        parts::transfer<T> x(p.x, p.shape.count * p.shape.n, at(i), mine.count);
        if (lane == 0) {
            ptx::barrier_expect(barrier, x.bytes());
            x.copy(stage, barrier);
        }
        x.copy_ends(stage, lane);
    }

    __device__ void look(int64_t i)
    {
        if (kCentred) {
            coming = AICF_OP::look(p.x + row(i) * p.shape.n, p.shape.n);
        }
    }

    __device__ void next()
    {
        before.near = now.near;
        if (kCentred) {
            float seen[1][1] = {{to_f32(coming)}};
            terms t[1];
            begin_near<T>(seen, t);
            now.near = t[0].near;
        }
    }

    // Whether words of a row's part may not start where words of memory do.
    __device__ bool odd(int64_t i) const
    {
        return kPer<T> > 1 && ((parts::phase(p.x + at(i)) | parts::phase(p.out + at(i))) & 2);
    }

    // Of the deviations; where kScaled is false, t.scale is 1.
    template <bool kOdd, bool kScaled>
    __device__ void sum_by(const terms &t, const char *x_at, float (&sum)[2])
    {
        auto take = [&](float x) {
            float d = kCentred ? t.deviation(x) : kScaled ? x * t.scale : x;
            sum[0] += kCentred ? d : 0.0f;
            sum[1] = fmaf(d, d, sum[1]);
        };
        mine.each_group([&](int, int column) {
            float x[kPer<T>];
            parts::read<kOdd>(x_at + column * sizeof(T), x, T{});
            for (float v : x) {
                take(v);
            }
        });
        if (mine.has_last()) {
            take(to_f32(reinterpret_cast<const T *>(x_at)[mine.count - 1]));
        }
    }

    __device__ void add_up(int64_t i, const char *stage, float (&sum)[2])
    {
        const char *x = stage + parts::phase(p.x + at(i));
        if (odd(i)) {
            sum_by<true, false>(now, x, sum);
        } else {
            sum_by<false, false>(now, x, sum);
        }
    }

    template <bool kOdd> __device__ void write_by(const char *x_at, T *out)
    {
        mine.template map<kOdd>(out, true, [&](int k, int column, float(&y)[kPer<T>]) {
            float x[kPer<T>];
            parts::read<kOdd>(x_at + column * sizeof(T), x, T{});
            normalise(before, x, y);
#pragma unroll
            for (int i = 0; i < kPer<T>; i++) {
                y[i] = kCentred ? fmaf(y[i], of[k].w[i], of[k].b[i]) : y[i] * of[k].w[i];
            }
        });
        if (mine.has_last()) {
            float x[1] = {to_f32(reinterpret_cast<const T *>(x_at)[mine.count - 1])}, y[1];
            normalise(before, x, y);
            out[mine.count - 1] = of_f32<T>(fmaf(y[0], last.w[0], last.b[0]));
        }
    }

    __device__ void finish(int64_t i, const char *stage, const float (&sum)[2])
    {
        const char *x = stage + parts::phase(p.x + at(i));
        bool moved = false;
        before.scale = 1.0f;
        before.template settle<T>(sum, p.share, p.eps);
#pragma unroll 1
        while (before.again(moved)) { // all blocks alike
            float part[1][2] = {}, all[2];
            sum_by<true, true>(before, x, part[0]);
            more.put(times, part);
            __syncthreads();
            if (threadIdx.x < rows::kWarp) {
                more.send(times);
            }
            more.get(times, all);
            times++;
            before.template settle<T>(all, p.share, p.eps);
        }
        if (odd(i)) {
            write_by<true>(x, p.out + at(i));
        } else {
            write_by<false>(x, p.out + at(i));
        }
        if (threadIdx.x == 0 && ptx::cluster_rank() == 0) {
            before.save(p, row(i));
        }
    }
};

template <typename T>
__global__ void
__launch_bounds__(parts::kThreads, 1) stay(const operands<T> p, const parts::plan s)
{
    extern __shared__ __align__(kPackBytes) char stages[];
    __shared__ parts::mail room, more;
    int64_t team = blockIdx.x / static_cast<unsigned>(s.parts), L = p.shape.count;
    int64_t teams = gridDim.x / static_cast<unsigned>(s.parts);
    ptx::let_next_launch_begin();
    if (threadIdx.x == 0) {
        int64_t N = p.shape.n, first = int64_t{ptx::cluster_rank()} * s.share;
        early::ask(p.x + team * N + first, N - first < s.share ? N - first : s.share);
    }
    ptx::wait_for_launch_before();
    work<T> mine(p, s, more, team, teams);
    parts::over_rows(mine, (L - team + teams - 1) / teams, s, stages, room);
}

template <typename T>
aicf_status
run_words(const operands<T> &p, int64_t L, int64_t N, aicf_stream stream)
{
    parts::plan s = parts::plan_for<kWords, 1>(L, N, sizeof(T));
    parts::blocks b = parts::blocks_of(s, stream);
    int64_t teams = parts::clusters_at_once(stay<T>, b);
    return parts::launch(stay<T>, teams < L ? teams : L, b, p, s);
}

} // namespace aicf::AICF_OP

#endif
