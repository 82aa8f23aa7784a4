// What a launch asks for before it waits for the one before it: it is on its way to the L2 while
// that one ends and the memory has little else to do. That is no read. What the launch before still
// writes goes through the L2 as well, and behind the wait that is what is read there; so nothing
// may come to the L1 this way. For the blocks that are there first: later ones have nobody to wait
// for.
#ifndef AICF_CUDA_EARLY_CUH
#define AICF_CUDA_EARLY_CUH

#include <aicf/cuda/numeric.cuh>
#include <aicf/cuda/ptx.cuh>

namespace aicf::early {

// The whole packs among `count` elements from `from` on: by one thread.
template <typename T>
__device__ inline void
ask(const T *from, int64_t count)
{
#if __CUDA_ARCH__ >= 900
    constexpr uintptr_t kPack = kPackBytes;
    uintptr_t begin = (reinterpret_cast<uintptr_t>(from) + kPack - 1) / kPack * kPack;
    uintptr_t end = reinterpret_cast<uintptr_t>(from + count) / kPack * kPack;
    if (count > 0 && begin < end) {
        ptx::prefetch_l2(reinterpret_cast<const void *>(begin), static_cast<uint32_t>(end - begin));
    }
#endif
}

} // namespace aicf::early

#endif
