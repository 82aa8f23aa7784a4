/* CUDA, as the launch path sees it. Part of libaicf, which says `unusable` where it was built
   without CUDA. No CUDA type is named here: every backend's users include it. */
#ifndef AICF_BACKEND_CUDA_H
#define AICF_BACKEND_CUDA_H

#include <aicf/backend.h>

extern const aicf_backend aicf_backend_cuda;

#endif
