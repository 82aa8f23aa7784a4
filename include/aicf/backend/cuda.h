/* CUDA, as the launch path sees it. Part of libaicf, which says `unusable` where it was built
   without CUDA. No CUDA type is named here: every backend's users include it. */
#ifndef AICF_BACKEND_CUDA_H
#define AICF_BACKEND_CUDA_H

#include <aicf/backend.h>
#include <aicf/repeat.h>

extern const aicf_backend aicf_backend_cuda;

/* An error after which CUDA is of no more use in this process: every later call fails. */
bool aicf_cuda_is_lost(int32_t native);

/* For aicf_repeats_of. NULL: this build has no CUDA. */
extern const aicf_repeats *const aicf_cuda_repeats;

/* Whether launches go straight to the driver where they can, as they do at first, or all by the
   runtime, as with AICF_LAUNCH=runtime in the environment. For comparing the two. */
void aicf_cuda_use_driver(bool on);

#endif
