// apache-tvm-ffi's binding of the launcher.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

#include "launcher.h"

namespace ffi = tvm::ffi;

static bench_launcher *on_cpu, *on_cuda, *nothing;

static void
setup(int64_t cpu, int64_t cuda, int64_t none)
{
    on_cpu = reinterpret_cast<bench_launcher *>(cpu);
    on_cuda = reinterpret_cast<bench_launcher *>(cuda);
    nothing = reinterpret_cast<bench_launcher *>(none);
}

static bool
fits(const ffi::TensorView &t, const ffi::TensorView &a)
{
    if (t.dtype().code != kDLFloat || t.dtype().bits != 32 || t.dtype().lanes != 1) {
        return false;
    }
    if (t.device().device_type != a.device().device_type ||
        t.device().device_id != a.device().device_id || t.ndim() != a.ndim() || !t.IsContiguous()) {
        return false;
    }
    for (int i = 0; i < t.ndim(); i++) {
        if (t.size(i) != a.size(i)) {
            return false;
        }
    }
    return true;
}

template <bool hollow>
static bool
add(ffi::TensorView a, ffi::TensorView b, ffi::TensorView out)
{
    if (!fits(a, a) || !fits(b, a) || !fits(out, a)) {
        return false;
    }
    bool cuda = a.device().device_type == kDLCUDA;
    if (!cuda && a.device().device_type != kDLCPU) {
        return false;
    }
    void *stream = cuda ? TVMFFIEnvGetStream(kDLCUDA, a.device().device_id) : nullptr;
    bench_launcher *launch = hollow ? nothing : cuda ? on_cuda : on_cpu;
    return launch(
               static_cast<const float *>(a.data_ptr()), static_cast<const float *>(b.data_ptr()),
               static_cast<float *>(out.data_ptr()), a.numel(), stream) == 0;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(setup, setup);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(add_f32, add<false>);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(hollow, add<true>);
