// Many tensors in one launch: what a list's tensors are, and which of them a block works on.
//
// Lists of one length go side by side: tensor i of each has the same number of elements. Addresses
// and sizes travel as launch parameters, so that a captured launch needs nothing beside it. A block
// takes a part of one tensor and finds out by its index which. Tensors without elements take no
// place; one of more than 2^30 is cut into several; lists longer than the parameters hold are
// several launches.
#ifndef AICF_CUDA_LISTS_CUH
#define AICF_CUDA_LISTS_CUH

#include <aicf/cuda/launch.cuh>
#include <aicf/cuda/numeric.cuh>

namespace aicf::lists {

constexpr int kBlock = 256;

// What a launch's parameters hold: since CUDA 12.1 so much on every arch that it compiles for. The
// first number is for the few tensors of most calls: all that is declared is copied at a launch.
constexpr int kFewBytes = 2048;
constexpr int kManyBytes = 32764;
constexpr int kOtherBytes = 256; // of these, for a kernel's other parameters

constexpr int64_t kPiece = int64_t{1} << 30; // elements; a multiple of any pack

template <int kLists, int kBytes> struct table {
    static constexpr int kEach = kLists * static_cast<int>(sizeof(void *)) + 8;
    static constexpr int kMost = (kBytes - kOtherBytes) / kEach;

    void *data[kLists][kMost];
    uint32_t numel[kMost];
    uint32_t first[kMost]; // the tensor's first block
    int count;
};

template <int kLists> using few = table<kLists, kFewBytes>;
template <int kLists> using many = table<kLists, kManyBytes>;

// The tensor that a block works on: the last whose first block is not after it.
template <int kLists, int kBytes>
__device__ inline int
tensor_of(const table<kLists, kBytes> &t, uint32_t block)
{
    int low = 0, high = t.count - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (t.first[middle] <= block) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

// The kernels of an op for one dtype: alike but for the size of their table. `R` is whatever else
// they take.
template <int kLists, typename R> struct kernels {
    void (*of_few)(few<kLists>, R);
    void (*of_many)(many<kLists>, R);
    int pack; // elements that a thread takes at once
};

// What of `t` is used, and the same of any other size.
template <int kLists, int kTo, int kFrom>
void
copy(table<kLists, kTo> &to, const table<kLists, kFrom> &t)
{
    for (int i = 0; i < t.count; i++) {
        for (int list = 0; list < kLists; list++) {
            to.data[list][i] = t.data[list][i];
        }
        to.numel[i] = t.numel[i];
        to.first[i] = t.first[i];
    }
    to.count = t.count;
}

template <int kLists, typename R>
aicf_status
launch_table(
    const kernels<kLists, R> &k, const R &rest, const many<kLists> &t, int64_t blocks,
    aicf_stream stream)
{
    unsigned grid = static_cast<unsigned>(blocks);
    if (t.count > few<kLists>::kMost) {
        return aicf::launch(k.of_many, grid, kBlock, 0, stream, t, rest);
    }
    few<kLists> small;
    copy(small, t);
    return aicf::launch(k.of_few, grid, kBlock, 0, stream, small, rest);
}

// Launches over lists of one length, `items` the bytes of an element of each. A tensor's blocks
// number kBlock packs of elements each, and one more where the packs leave a rest.
template <int kLists, typename R>
aicf_status
launch(
    const kernels<kLists, R> &k, const R &rest, const aicf_list (&lists)[kLists],
    const int64_t (&items)[kLists], aicf_stream stream)
{
    static_assert(sizeof(R) <= kOtherBytes - 16, "the table leaves no room");
    many<kLists> t;
    int64_t blocks = 0;
    t.count = 0;
    for (int64_t i = 0; i < lists[0].count; i++) {
        int64_t n = numel(&lists[0].views[i]);
        for (int64_t begin = 0; begin < n; begin += kPiece) {
            int64_t piece = n - begin < kPiece ? n - begin : kPiece;
            int64_t more = ceil_div(piece / k.pack + 1, kBlock);
            if (t.count == many<kLists>::kMost || blocks + more > kMostBlocks) {
                aicf_status status = launch_table(k, rest, t, blocks, stream);
                if (status.kind) {
                    return status;
                }
                t.count = 0;
                blocks = 0;
            }
            for (int list = 0; list < kLists; list++) {
                char *data = static_cast<char *>(lists[list].views[i].data);
                t.data[list][t.count] = data + begin * items[list];
            }
            t.numel[t.count] = static_cast<uint32_t>(piece);
            t.first[t.count] = static_cast<uint32_t>(blocks);
            t.count++;
            blocks += more;
        }
    }
    return t.count > 0 ? launch_table(k, rest, t, blocks, stream) : aicf_ok();
}

} // namespace aicf::lists

#endif
