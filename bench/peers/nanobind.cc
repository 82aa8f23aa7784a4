// nanobind's binding of the launcher. It knows no current stream: the launch is on the default one.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "launcher.h"

namespace nb = nanobind;

static bench_launcher *on_cpu, *on_cuda, *nothing;

template <typename T, typename Device>
using array = nb::ndarray<T, nb::ndim<1>, nb::c_contig, Device>;

template <typename Device, bool hollow>
static bool
add(array<const float, Device> a, array<const float, Device> b, array<float, Device> out)
{
    if (b.shape(0) != a.shape(0) || out.shape(0) != a.shape(0) || b.device_id() != a.device_id() ||
        out.device_id() != a.device_id()) {
        return false;
    }
    constexpr bool cuda = std::is_same_v<Device, nb::device::cuda>;
    bench_launcher *launch = hollow ? nothing : cuda ? on_cuda : on_cpu;
    return launch(a.data(), b.data(), out.data(), static_cast<int64_t>(a.shape(0)), nullptr) == 0;
}

NB_MODULE(bench_nanobind, m)
{
    m.def("setup", [](uintptr_t cpu, uintptr_t cuda, uintptr_t none) {
        on_cpu = reinterpret_cast<bench_launcher *>(cpu);
        on_cuda = reinterpret_cast<bench_launcher *>(cuda);
        nothing = reinterpret_cast<bench_launcher *>(none);
    });
    m.def("cpu", &add<nb::device::cpu, false>);
    m.def("cpu_hollow", &add<nb::device::cpu, true>);
    m.def("cuda", &add<nb::device::cuda, false>);
    m.def("cuda_hollow", &add<nb::device::cuda, true>);
}
