// What conv2d and its gradients share for windows of 3 x 3 that lie at every element (threes.cuh).
#ifndef AICF_CONV2D_THREES_OF_CUH
#define AICF_CONV2D_THREES_OF_CUH

#include <aicf/cuda/conv_fma.cuh>

namespace aicf::AICF_OP::threes {

constexpr int kSide = 3, kTaps = kSide * kSide, kHalo = kSide - 1;
constexpr int kMostShared = 96 * 1024; // of a block

// The field and the places of a convolution, as kernels count them.
struct geometry {
    int field_image, field_channel, field_row;
    int images, channels, m, rows, columns; // rows and columns of places
    int first_y, first_x, size_y, size_x;
};

inline geometry
geometry_of(const aicf_conv &c)
{
    geometry g = {};
    g.field_image = static_cast<int>(c.field_strides[0]);
    g.field_channel = static_cast<int>(c.field_strides[1]);
    g.field_row = static_cast<int>(c.field_strides[2]);
    g.images = static_cast<int>(c.images);
    g.channels = static_cast<int>(c.channels);
    g.m = static_cast<int>(c.m);
    g.rows = static_cast<int>(c.y.places);
    g.columns = static_cast<int>(c.x.places);
    g.first_y = static_cast<int>(c.y.first);
    g.first_x = static_cast<int>(c.x.first);
    g.size_y = static_cast<int>(c.y.size);
    g.size_x = static_cast<int>(c.x.size);
    return g;
}

inline int
div_up(int a, int b)
{
    return (a + b - 1) / b;
}

// Threads of a block, of which so many multiply: where blocks are alone the others help to copy.
inline int
threads_of(int multiplying, int64_t blocks, int processors)
{
    const int threads = div_up(multiplying, 32) * 32;
    return blocks <= processors && threads < kThreads ? kThreads : threads;
}

// Whether all elements of a tensor of such sizes are found by 32 bits.
inline bool
is_small(const int64_t *strides, int64_t a, int64_t b, int64_t c, int64_t d)
{
    constexpr int64_t kMost = int64_t{1} << 30;
    const int64_t sizes[4] = {a, b, c, d};
    int64_t last = 0;
    for (int dim = 0; dim < 4; dim++) {
        const int64_t stride = strides[dim] < 0 ? -strides[dim] : strides[dim];
        if (sizes[dim] > kMost || stride > kMost) {
            return false;
        }
        last += sizes[dim] * stride; // of at most 2^60 each
        if (last > kMost) {
            return false;
        }
    }
    return true;
}

// The bytes of shared memory that a block of the current device may have.
inline aicf_status
shared_limit(int *bytes)
{
    int device = 0;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess) {
        error = cudaDeviceGetAttribute(bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    }
    return status_of(error);
}

} // namespace aicf::AICF_OP::threes

#endif
