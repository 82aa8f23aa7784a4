// gemm in f32 by multiply-adds, for sm_80 and later (see gemm.cuh for the operands): which of its
// kernels takes a product.
#ifndef AICF_GEMM_FMA_CUH
#define AICF_GEMM_FMA_CUH

#include "broad.cuh"
#include "few_rows.cuh"
#include "narrow.cuh"
#include "shallow.cuh"
#include "thin_packs.cuh"

namespace aicf::gemm {

inline aicf_status
launch_fma(const problem<float> &p, void *workspace, aicf_stream stream)
{
    if (is_thin(p)) {
        return launch_thin_packs(p, stream);
    }
    if (takes_narrow(p)) {
        return launch_narrow(p, stream);
    }
    if (takes_shallow(p)) {
        return launch_shallow(p, stream);
    }
    int processors = 0;
    aicf_status status = count_processors(&processors);
    if (status.kind) {
        return status;
    }
    if (p.M <= kFewRows) {
        return launch_in_parts(
            p, parts_of_few(p, processors), kSlab, workspace, stream, launch_few_rows);
    }
    broad_plan plan = plan_broad(p, processors);
    return launch_in_parts(p, plan.parts, plan.slab, workspace, stream, plan.launch);
}

} // namespace aicf::gemm

#endif
