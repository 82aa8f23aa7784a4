// gemm in f32 where N is small, for sm_80 and later (see gemm.cuh for the operands): a thread has a
// sum for every column. Any address and pitch; of one batch. A sum is split among the lanes, and
// the warps of a block or the blocks of a cluster where there are few of them, and added in the
// order of their numbers. Bound by the bytes of a where M is large, else by latency.
#ifndef AICF_GEMM_NARROW_CUH
#define AICF_GEMM_NARROW_CUH

#include "narrow_columns.cuh"
#include "narrow_rows.cuh"

namespace aicf::gemm {

inline bool
takes_narrow(const problem<float> &p)
{
    if (!is_small(p) || p.N > kMostNarrow) {
        return false;
    }
    int n = p.N > 10 ? 16 : p.N > 8 ? 10 : p.N > 4 ? 8 : 4;
    if (p.a_along_k) {
        return p.K <= 8192 && n * pitch_of_k(static_cast<int>(p.K)) * 4 <= kNarrowShared &&
               static_cast<int>(p.K) * (n + 1) * 4 <= kNarrowShared;
    }
    return p.K <= 8192 && p.M <= 65536;
}

inline bool
on_packs(const problem<float> &p, int64_t length)
{
    return reinterpret_cast<uintptr_t>(p.a) % kPackBytes == 0 && p.a_pitch % 4 == 0 &&
           length % 4 == 0;
}

template <int kN>
aicf_status
launch_narrow_of(const problem<float> &p, aicf_stream stream)
{
    small_problem<float> s = small_of(p);
    bool line = is_line(s, kN);
    if (p.a_along_k) {
        return !on_packs(p, p.K) ? launch_narrow_rows<kN, 1, false>(s, stream)
               : line            ? launch_narrow_rows<kN, 4, true>(s, stream)
                                 : launch_narrow_rows<kN, 4, false>(s, stream);
    }
    return !on_packs(p, p.M) ? launch_narrow_columns<kN, 1, false>(s, stream)
           : line            ? launch_narrow_columns<kN, 4, true>(s, stream)
                             : launch_narrow_columns<kN, 4, false>(s, stream);
}

inline aicf_status
launch_narrow(const problem<float> &p, aicf_stream stream)
{
    return p.N > 10  ? launch_narrow_of<16>(p, stream)
           : p.N > 8 ? launch_narrow_of<10>(p, stream)
           : p.N > 4 ? launch_narrow_of<8>(p, stream)
                     : launch_narrow_of<4>(p, stream);
}

} // namespace aicf::gemm

#endif
