// C loops of launches, for bench/launch.py: built once over the CUDA runtime that libaicf carries
// and once over one of its own. The kernel and its arguments are add's. Each loop gives nanoseconds
// a turn, or minus the first error.
#include <time.h>

#include <cstring>

#include <cuda.h>
#include <cuda_runtime.h>

extern "C" {
#include <aicf/call.h>
}
#include <aicf/cuda/elementwise.cuh>

namespace aicf::launches {

struct plus {
    __device__ float operator()(float a, float b) const
    {
        return a + b;
    }
};

AICF_ELEMENTWISE_KERNELS

using types = of<float, float, float>;
const auto add = vec<plus, types>;

struct arguments {
    plus f;
    elementwise::operands<2> p;
    int64_t packs;
    elementwise::edges e;
    unsigned blocks;
    cudaStream_t stream;
};

static arguments
arguments_of(const float *a, const float *b, float *out, int64_t n, void *stream)
{
    elementwise::operands<2> p = operands_of(out, a, b);
    elementwise::vec_plan plan =
        elementwise::plan_vec<types::kIn>(&p, types::kSizes, types::kLanes, types::kPacks, n);
    return {plus{}, p, plan.packs, plan.e, plan.blocks, static_cast<cudaStream_t>(stream)};
}

template <typename Turn>
double
time_of(int turns, Turn turn)
{
    timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < turns; i++) {
        int error = turn();
        if (error) {
            return -error;
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    return ((end.tv_sec - begin.tv_sec) * 1e9 + (end.tv_nsec - begin.tv_nsec)) / turns;
}

template <typename Function>
bool
find(Function &function, const char *name)
{
    void *found = nullptr;
    cudaDriverEntryPointQueryResult result;
#if CUDART_VERSION >= 12050
    cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result);
#else
    cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
    std::memcpy(&function, &found, sizeof found);
    return found != nullptr;
}

using launch_t = CUresult (*)(
    CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
    void **, void **);

static double
by_driver(int turns, arguments x, CUfunction function)
{
    launch_t launch;
    if (!find(launch, "cuLaunchKernel")) {
        return -1;
    }
    void *pointers[] = {&x.f, &x.p, &x.packs, &x.e};
    return time_of(turns, [&] {
        return launch(
            function, x.blocks, 1, 1, elementwise::kBlock, 1, 1, 0, x.stream, pointers, nullptr);
    });
}

} // namespace aicf::launches

using namespace aicf::launches;

#define LOOP extern "C" __attribute__((visibility("default"))) double
#define ADD const float *a, const float *b, float *out, int64_t n, void *stream

// kernel<<<...>>>(...)
LOOP
loop_chevrons(int turns, ADD)
{
    arguments x = arguments_of(a, b, out, n, stream);
    return time_of(turns, [&] {
        add<<<x.blocks, aicf::elementwise::kBlock, 0, x.stream>>>(x.f, x.p, x.packs, x.e);
        return 0;
    });
}

// cudaLaunchKernel, as launchers of kernels call it.
LOOP
loop_call(int turns, ADD)
{
    arguments x = arguments_of(a, b, out, n, stream);
    return time_of(turns, [&] {
        return aicf::launch(
                   add, x.blocks, aicf::elementwise::kBlock, 0,
                   reinterpret_cast<aicf_stream>(x.stream), x.f, x.p, x.packs, x.e)
            .native;
    });
}

// cuLaunchKernel with the function of this context.
LOOP
loop_function(int turns, ADD)
{
    cudaFunction_t function;
    cudaGetFuncBySymbol(&function, reinterpret_cast<const void *>(add));
    return by_driver(turns, arguments_of(a, b, out, n, stream), function);
}

// cuLaunchKernel with the kernel's handle of all contexts.
LOOP
loop_kernel(int turns, ADD)
{
    cudaKernel_t kernel;
    cudaGetKernel(&kernel, reinterpret_cast<const void *>(add));
    return by_driver(
        turns, arguments_of(a, b, out, n, stream),
        reinterpret_cast<CUfunction>(reinterpret_cast<void *>(kernel)));
}

// What may stand around a launch: 0 cudaGetDevice, 1 cudaPeekAtLastError, 2 cuCtxGetDevice,
// 3 cuCtxGetCurrent, 4 cuCtxGetId, 5 cudaFuncSetAttribute.
LOOP
loop_question(int turns, int which)
{
    int device;
    CUdevice number;
    CUcontext context;
    CUresult (*get_device)(CUdevice *);
    CUresult (*get_current)(CUcontext *);
    CUresult (*get_id)(CUcontext, unsigned long long *);
    unsigned long long id;
    if (!find(get_device, "cuCtxGetDevice") || !find(get_current, "cuCtxGetCurrent") ||
        !find(get_id, "cuCtxGetId")) {
        return -1;
    }
    switch (which) {
    case 0: return time_of(turns, [&] { return cudaGetDevice(&device); });
    case 1: return time_of(turns, [&] { return cudaPeekAtLastError(); });
    case 2: return time_of(turns, [&] { return get_device(&number); });
    case 4: return time_of(turns, [&] { return get_id(nullptr, &id); });
    case 5: return time_of(turns, [&] { return aicf::allow_shared(add, 0).native; });
    default: return time_of(turns, [&] { return get_current(&context); });
    }
}

#ifdef WITH_AICF
#include <aicf_ops/add.h>

extern "C" const aicf_op aicf_add_op;

static aicf_tensor
tensor_of(const float *data, const int64_t *n, int device)
{
    aicf_tensor t = {};
    t.data = const_cast<float *>(data);
    t.device = {2, device};
    t.rank = 1;
    t.dtype = AICF_F32;
    t.sizes = n;
    aicf_tensor_settle(&t);
    return t;
}

// A prepared add: enter, launch, leave.
LOOP
loop_aicf(int turns, ADD)
{
    alignas(16) static char bytes[4096];
    aicf_call *call = reinterpret_cast<aicf_call *>(bytes);
    aicf_tensor t[] = {tensor_of(a, &n, 0), tensor_of(b, &n, 0), tensor_of(out, &n, 0)};
    if (aicf_call_bytes(&aicf_add_op, 3) > sizeof bytes) {
        return -1;
    }
    aicf_call_init(call, &aicf_add_op, -1);
    if (aicf_add_op.prepare(t, call).kind) {
        return -1;
    }
    call->stream = static_cast<aicf_stream>(stream);
    return time_of(turns, [&] {
        aicf_status status = aicf_call_launch(call);
        return status.kind ? status.native + 1 : 0;
    });
}
#endif
