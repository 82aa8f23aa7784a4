// gemm in f32 where N is small, for sm_80 and later (see gemm.cuh for the operands): a thread has a
// sum for every column. Any address and pitch; of one batch. A sum is split among the lanes, and
// the warps of a block or the blocks of a cluster where there are few of them, and added in the
// order of their numbers. Bound by the bytes of a where M is large, else by latency.
#ifndef AICF_GEMM_NARROW_CUH
#define AICF_GEMM_NARROW_CUH

#include "narrow_columns.cuh"
#include "narrow_rows.cuh"

namespace aicf::gemm {

// Columns that the kernels have sums for.
inline int
columns_of(int64_t N)
{
    return N <= kUsualColumns ? kUsualColumns : kMostNarrow;
}

inline bool
takes_narrow(const problem<float> &p)
{
    constexpr int kMostK = 8192, kMostRows = 65536;
    if (!is_small(p) || p.N > kMostNarrow || p.K > kMostK) {
        return false;
    }
    int K = static_cast<int>(p.K), columns = columns_of(p.N);
    return p.a_along_k ? shared_of_rows(K, columns, false) <= kNarrowShared &&
                             shared_of_rows(K, columns, true) <= kNarrowShared
                       : p.M <= kMostRows;
}

template <int kN>
aicf_status
launch_narrow_of(const problem<float> &p, aicf_stream stream)
{
    small_problem<float> s = small_of(p);
    bool packs = reinterpret_cast<uintptr_t>(p.a) % kPackBytes == 0 && p.a_pitch % 4 == 0 &&
                 (p.a_along_k ? p.K : p.M) % 4 == 0;
    return p.a_along_k ? launch_narrow_rows<kN>(s, packs, is_line(s, kN), stream)
                       : launch_narrow_columns<kN>(s, packs, is_line(s, kN), stream);
}

inline aicf_status
launch_narrow(const problem<float> &p, aicf_stream stream)
{
    return columns_of(p.N) == kUsualColumns ? launch_narrow_of<kUsualColumns>(p, stream)
                                            : launch_narrow_of<kMostNarrow>(p, stream);
}

} // namespace aicf::gemm

#endif
