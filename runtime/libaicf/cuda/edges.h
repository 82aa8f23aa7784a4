/* In CUDA 12 the calls of captures that know of edges have numbers. For libaicf, and for the shim,
   which stands in for them. */
#ifndef AICF_CUDA_EDGES_H
#define AICF_CUDA_EDGES_H

#include <cuda_runtime_api.h>

#if CUDART_VERSION < 13000
#define CAPTURE_INFO cudaStreamGetCaptureInfo_v3
#define CAPTURE_UPDATE cudaStreamUpdateCaptureDependencies_v2
#else
#define CAPTURE_INFO cudaStreamGetCaptureInfo
#define CAPTURE_UPDATE cudaStreamUpdateCaptureDependencies
#endif

#endif
