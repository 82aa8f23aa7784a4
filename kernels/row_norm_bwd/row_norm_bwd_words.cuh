// Part of row_norm_bwd_sm_90.cu: what a row's columns add up to, and rows that come to shared
// memory by aicf/cuda/parts.cuh, words of them.
#ifndef AICF_KERNELS_ROW_NORM_BWD_WORDS_CUH
#define AICF_KERNELS_ROW_NORM_BWD_WORDS_CUH

#include "row_norm_bwd.cuh"

#include <aicf/cuda/parts.cuh>

namespace aicf::AICF_OP {

using parts::kPer;
template <typename T> constexpr int kWords = kColumns / kPer<T>;

// What stays of a word's columns.
template <int kCount> struct columns_of {
    float w[kCount], gw[kCount], gb[kCount];
};

// A row's mean and rstd, and what its gx is made of once they are known: -rstd * the mean of q, and
// -rstd * the mean of q * h.
struct row_terms {
    float mean, rstd, first, second;
};

template <int kCount>
__device__ inline void
add_up(
    const row_terms &t, const columns_of<kCount> &c, const float (&gy)[kCount],
    const float (&x)[kCount], float (&sum)[2])
{
#pragma unroll
    for (int i = 0; i < kCount; i++) {
        float q = gy[i] * c.w[i], h = (x[i] - t.mean) * t.rstd;
        sum[0] += q;
        sum[1] = fmaf(q, h, sum[1]);
    }
}

template <int kCount>
__device__ inline void
finish(
    const row_terms &t, columns_of<kCount> &c, const float (&gy)[kCount], const float (&x)[kCount],
    float (&gx)[kCount])
{
#pragma unroll
    for (int i = 0; i < kCount; i++) {
        float q = gy[i] * c.w[i], h = (x[i] - t.mean) * t.rstd;
        c.gw[i] = fmaf(gy[i], h, c.gw[i]);
        c.gb[i] += gy[i];
        gx[i] = fmaf(h, t.second, fmaf(q, t.rstd, t.first));
    }
}

// What a block does with its columns of the rows team, team + teams, ...
template <typename T> struct work {
    const operands<T> &p;
    int64_t team, teams;
    int pitch;
    float share;
    parts::part<T, kWords<T>> mine;
    columns_of<kPer<T>> of[kWords<T>];
    columns_of<1> last;
    row_terms now, before, coming;

    __device__ work(const operands<T> &operands, const parts::plan &s, int64_t index, int64_t all)
        : p(operands), team(index), teams(all), pitch(s.pitch), mine(operands.N, s.share)
    {
        share = 1.0f / static_cast<float>(p.N);
        mine.each([&](int k, int column) {
#pragma unroll
            for (int i = 0; i < kPer<T>; i++) {
                of[k].w[i] = p.weight ? to_f32(p.weight[mine.first + column + i]) : 1.0f;
            }
        });
        last.w[0] = mine.has_last() && p.weight ? to_f32(p.weight[p.N - 1]) : 1.0f;
#pragma unroll
        for (int k = 0; k < kWords<T>; k++) {
#pragma unroll
            for (int i = 0; i < kPer<T>; i++) {
                of[k].gw[i] = of[k].gb[i] = 0.0f;
            }
        }
        last.gw[0] = last.gb[0] = 0.0f;
    }

    // The first of the block's elements of row i of this team.
    __device__ int64_t at(int64_t i) const
    {
        return (team + i * teams) * p.N + mine.first;
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
        parts::transfer<T> gy(p.gy, p.L * p.N, at(i), mine.count);
        parts::transfer<T> x(p.x, p.L * p.N, at(i), mine.count);
        if (lane == 0) {
            ptx::barrier_expect(barrier, gy.bytes() + x.bytes());
            gy.copy(stage, barrier);
            x.copy(stage + pitch, barrier);
        }
        gy.copy_ends(stage, lane);
        x.copy_ends(stage + pitch, lane);
    }

    __device__ void look(int64_t i)
    {
        coming.mean = kCentred ? p.mean[team + i * teams] : 0.0f;
        coming.rstd = p.rstd[team + i * teams];
    }

    __device__ void next()
    {
        before = now;
        now = coming;
    }

    // Whether words of a row's part may not start where words of memory do.
    __device__ bool odd(int64_t i) const
    {
        return kPer<T> > 1 && ((parts::phase(p.gy + at(i)) | parts::phase(p.x + at(i)) |
                                parts::phase(p.gx + at(i))) &
                               2);
    }

    template <bool kOdd>
    __device__ void add_up_by(const char *gy_at, const char *x_at, float (&sum)[2])
    {
        mine.each_group([&](int k, int column) {
            float gy[kPer<T>], x[kPer<T>];
            parts::read<kOdd>(gy_at + column * sizeof(T), gy, T{});
            parts::read<kOdd>(x_at + column * sizeof(T), x, T{});
            AICF_OP::add_up(now, of[k], gy, x, sum);
        });
        if (mine.has_last()) {
            float gy[1] = {to_f32(reinterpret_cast<const T *>(gy_at)[mine.count - 1])};
            float x[1] = {to_f32(reinterpret_cast<const T *>(x_at)[mine.count - 1])};
            AICF_OP::add_up(now, last, gy, x, sum);
        }
    }

    __device__ void add_up(int64_t i, const char *stage, float (&sum)[2])
    {
        const char *gy = stage + parts::phase(p.gy + at(i));
        const char *x = stage + pitch + parts::phase(p.x + at(i));
        if (odd(i)) {
            add_up_by<true>(gy, x, sum);
        } else {
            add_up_by<false>(gy, x, sum);
        }
    }

    template <bool kOdd> __device__ void finish_by(const char *gy_at, const char *x_at, T *gx)
    {
        mine.template map<kOdd>(gx, p.gx, [&](int k, int column, float(&v)[kPer<T>]) {
            float gy[kPer<T>], x[kPer<T>];
            parts::read<kOdd>(gy_at + column * sizeof(T), gy, T{});
            parts::read<kOdd>(x_at + column * sizeof(T), x, T{});
            AICF_OP::finish(before, of[k], gy, x, v);
        });
        if (mine.has_last()) {
            float gy[1] = {to_f32(reinterpret_cast<const T *>(gy_at)[mine.count - 1])};
            float x[1] = {to_f32(reinterpret_cast<const T *>(x_at)[mine.count - 1])}, v[1];
            AICF_OP::finish(before, last, gy, x, v);
            if (p.gx) {
                gx[mine.count - 1] = of_f32<T>(v[0]);
            }
        }
    }

    __device__ void finish(int64_t i, const char *stage, const float (&sum)[2])
    {
        const char *gy = stage + parts::phase(p.gy + at(i));
        const char *x = stage + pitch + parts::phase(p.x + at(i));
        before.first = kCentred ? -before.rstd * (sum[0] * share) : 0.0f;
        before.second = -before.rstd * (sum[1] * share);
        if (odd(i)) {
            finish_by<true>(gy, x, p.gx + at(i));
        } else {
            finish_by<false>(gy, x, p.gx + at(i));
        }
    }

    __device__ void save() const
    {
        float *gw = p.partial + team * kKinds * p.N + mine.first, *gb = gw + p.N;
        mine.each([&](int k, int column) {
#pragma unroll
            for (int i = 0; i < kPer<T>; i++) {
                gw[column + i] = of[k].gw[i];
                if (kCentred) {
                    gb[column + i] = of[k].gb[i];
                }
            }
        });
        if (mine.has_last()) {
            gw[mine.count - 1] = last.gw[0];
            if (kCentred) {
                gb[mine.count - 1] = last.gb[0];
            }
        }
    }
};

template <typename T>
__global__ void
__launch_bounds__(parts::kThreads, 1) cluster(const operands<T> p, const parts::plan s)
{
    extern __shared__ __align__(kPackBytes) char stages[];
    __shared__ parts::mail room;
    int64_t team = blockIdx.x / static_cast<unsigned>(s.parts);
    int64_t teams = gridDim.x / static_cast<unsigned>(s.parts);
    rows::begin();
    work<T> mine(p, s, team, teams);
    parts::over_rows(mine, team < p.L ? (p.L - team + teams - 1) / teams : 0, s, stages, room);
    if (p.partial) {
        mine.save();
    }
}

} // namespace aicf::AICF_OP

#endif
