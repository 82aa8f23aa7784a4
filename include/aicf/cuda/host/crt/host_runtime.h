// Stands before the toolkit's header of this name, which nvcc puts before the host's part of each
// kernel: a function that `kernel<<<...>>>(...)` calls, and its registration. Launches by address
// (aicf/cuda/launch.cuh) never call that function, and a module may have more than a hundred of
// them: here they are as small as they can be, and share what they do. Toolkits that have other
// macros keep their own.
#include_next <crt/host_runtime.h>

// It is included twice, and has the macros the second time.
#if defined(__cudaLaunch) && defined(__cudaRegisterEntry) && !defined(AICF_STUBS)
#define AICF_STUBS

// `tile`: of a kernel that has no say in its block.
static __attribute__((noinline, cold, unused)) void
aicf_stub_launch(void **args, const void *kernel, bool tile = false)
{
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
    if (__cudaPopCallConfiguration(&grid, &block, &shared, &stream) == cudaSuccess) {
        cudaLaunchKernel(kernel, grid, tile ? dim3(1) : block, args, shared, stream);
    }
}

static __attribute__((noinline, cold, unused)) void
aicf_stub_register(void **module, const void *kernel, const char *name)
{
    __cudaRegisterFunction(
        module, static_cast<const char *>(kernel), const_cast<char *>(name), name, -1, nullptr,
        nullptr, nullptr, nullptr, nullptr);
}

#undef __cudaLaunch
#define __cudaLaunch(...)                          \
    {                                              \
        (void)__args_idx;                          \
        aicf_stub_launch(__args_arr, __VA_ARGS__); \
    }

#undef __cudaRegisterEntry
#define __cudaRegisterEntry(module, kernel, name, threads) \
    aicf_stub_register(module, (const void *)(kernel), #name)

#endif
