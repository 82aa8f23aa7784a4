// Elementwise work: out[i] = f(in 0 [i], ..., in kIn-1 [i]) for 0 to 3 inputs, each of a dtype of
// its own, as is the out. f takes and gives values: f32 for the 16-bit floats, bool, and integers
// as they are. An op's file names its kernels by AICF_ELEMENTWISE_KERNELS, so that profilers show
// the op's own.
//
//   vec      all tensors without gaps, in one order, at any address. Where all addresses have one
//            phase, packs of up to 16 bytes between a peeled head and tail.
//   rows     views whose innermost dim lies without gaps, or without a stride, in all tensors, and
//            whose rows have one phase: packs along that dim, cut where a row begins and ends.
//   strided  any views of one shape, up to rank 8, any strides, element by element.
//
// Views are launched in parts of less than 2^31 packs or elements, so that indexes are divided in
// 32 bits; offsets are 64. A stride of 0 broadcasts. An out may be exactly one of the inputs (so no
// pointer is __restrict__): each element is read by the thread that writes it, before it does.
// Bound by bytes.
#ifndef AICF_CUDA_ELEMENTWISE_CUH
#define AICF_CUDA_ELEMENTWISE_CUH

#include <utility>

#include <aicf/cuda/launch.cuh>
#include <aicf/cuda/numeric.cuh>

namespace aicf::elementwise {

constexpr int kBlock = 256;
// Elements of a thread that goes element by element: that many loads are on their way at once.
// Where a thread moves packs it moves one: more blocks then share the tail (H200, relu of 256
// MiB: 1.00 of the copy rate with one pack a thread, 0.96 with two, 0.93 with four).
constexpr int kUnroll = 4;

constexpr int
largest(int a, int b)
{
    return a > b ? a : b;
}

// The device types of the out and of each input.
template <typename Out, typename... In> struct of {
    static constexpr int kIn = static_cast<int>(sizeof...(In));
    // Elements of a pack: the widest of them fill it.
    static constexpr int kLanes = [] {
        int size = sizeof(Out);
        ((size = largest(size, sizeof(In))), ...);
        return kPackBytes / size;
    }();
    // Packs of a thread: more than one where the inputs' are narrow, so that 16 bytes are on their
    // way, or where there are none.
    static constexpr int kPacks = [] {
        int bytes = (0 + ... + static_cast<int>(sizeof(In))) * kLanes;
        return bytes ? largest(1, kPackBytes / bytes) : 4;
    }();
    static constexpr int kSizes[kIn + 1] = {sizeof(Out), sizeof(In)...};
};

// Whether small launches of `vec` begin while the one before them ends: F says so where a call of
// few elements has to cost the least.
template <typename F, typename = void> constexpr bool kStartsEarly = false;
template <typename F>
constexpr bool kStartsEarly<F, std::void_t<decltype(F::kStartsEarly)>> = F::kStartsEarly;
constexpr int64_t kSmall = int64_t{4} << 20; // bytes of the out

template <typename Types> using inputs_of = std::make_index_sequence<Types::kIn>;

// The out, then the inputs.
template <int kIn> struct operands {
    void *at[kIn + 1];
};

template <typename... In>
operands<static_cast<int>(sizeof...(In))>
operands_of(void *out, const In *...in)
{
    return {{out, const_cast<void *>(static_cast<const void *>(in))...}};
}

// ---- elements and packs -------------------------------------------------------------------------

template <typename T>
__device__ inline value_t<T>
load(const void *p, int64_t i)
{
    return to_value(static_cast<const T *>(p)[i]);
}

template <typename T>
__device__ inline void
store(void *p, int64_t i, value_t<T> x)
{
    static_cast<T *>(p)[i] = of_value<T>(x);
}

// out[offset[0]] = f(in j [offset[j + 1]]...)
template <typename F, typename Out, typename... In, size_t... J>
__device__ inline void
element(
    const F &f, of<Out, In...>, std::index_sequence<J...>, void *const *at, const int64_t *offset)
{
    store<Out>(at[0], offset[0], f(load<In>(at[J + 1], offset[J + 1])...));
}

// x[j + 1] = the pack of input j at element i.
template <typename Out, typename... In, size_t... J>
__device__ inline void
load_packs(
    of<Out, In...>, std::index_sequence<J...>, void *const *at, int64_t i,
    words (&x)[sizeof...(In) + 1])
{
    constexpr int kLanes = of<Out, In...>::kLanes;
    ((x[J + 1] = load_bytes<kLanes * sizeof(In)>(static_cast<const In *>(at[J + 1]) + i)), ...);
}

template <typename F, typename Out, typename... In, size_t... J>
__device__ inline void
store_pack_of(
    const F &f, of<Out, In...>, std::index_sequence<J...>, void *at, int64_t i,
    const words (&x)[sizeof...(In) + 1])
{
    constexpr int kLanes = of<Out, In...>::kLanes;
    value_t<Out> out[kLanes];
#pragma unroll
    for (int lane = 0; lane < kLanes; lane++) {
        out[lane] = f(lane_of<In>(x[J + 1], lane)...);
    }
    store_bytes<kLanes * sizeof(Out)>(static_cast<Out *>(at) + i, words_of<Out>(out));
}

// ---- vec ----------------------------------------------------------------------------------------

// Elements before and behind what lies in whole packs.
struct edges {
    int head, tail;
};

// p is at the first pack, which is on its boundary in each tensor. Block 0 does the edges.
template <typename F, typename Types>
__device__ inline void
vec_body(const F &f, Types types, const operands<Types::kIn> &p, int64_t packs, edges e)
{
    constexpr int kLanes = Types::kLanes, kPacks = Types::kPacks;
    constexpr inputs_of<Types> kInputs;
    int64_t first = blockIdx.x * int64_t{kBlock * kPacks} + threadIdx.x;
    if constexpr (kStartsEarly<F>) {
        ptx::let_next_launch_begin();
        ptx::wait_for_launch_before();
    }

    words x[kPacks][Types::kIn + 1];
#pragma unroll
    for (int u = 0; u < kPacks; u++) {
        if (first + u * kBlock < packs) {
            load_packs(types, kInputs, p.at, (first + u * kBlock) * kLanes, x[u]);
        }
    }
#pragma unroll
    for (int u = 0; u < kPacks; u++) {
        if (first + u * kBlock < packs) {
            store_pack_of(f, types, kInputs, p.at[0], (first + u * kBlock) * kLanes, x[u]);
        }
    }

    if ((e.head | e.tail) && blockIdx.x == 0) {
        int lane = static_cast<int>(threadIdx.x);
        bool behind = lane >= kLanes;
        int64_t i = behind ? packs * kLanes + lane - kLanes : lane - e.head;
        int64_t offset[Types::kIn + 1];
#pragma unroll
        for (int64_t &each : offset) {
            each = i;
        }
        if (behind ? lane - kLanes < e.tail : lane < e.head) {
            element(f, types, kInputs, p.at, offset);
        }
    }
}

// ---- views --------------------------------------------------------------------------------------

// Dims start with the innermost, whose size is counted in packs where there are packs; strides are
// in elements, the out's first.
template <int kIn> struct strided_operands {
    void *at[kIn + 1];
    uint32_t n; // elements or packs
    int rank;
    divider sizes[AICF_MAX_RANK];
    int64_t strides[AICF_MAX_RANK][kIn + 1];
    int64_t row; // elements of a row
    int phase;   // of the first element of each row in its pack
};

// Sets offset[] to those of index i, but for the innermost dim, whose digit is returned.
template <int kIn>
__device__ inline uint32_t
locate_row(const strided_operands<kIn> &p, uint32_t i, int64_t (&offset)[kIn + 1])
{
#pragma unroll
    for (int64_t &each : offset) {
        each = 0;
    }
    uint32_t inner = i;
#pragma unroll
    for (int dim = 0; dim < AICF_MAX_RANK; dim++) {
        if (dim == p.rank) {
            break;
        }
        uint32_t next = dim + 1 < p.rank ? divide(i, p.sizes[dim]) : 0;
        uint32_t digit = i - next * p.sizes[dim].divisor;
        i = next;
        if (dim == 0) {
            inner = digit;
            continue;
        }
#pragma unroll
        for (int j = 0; j <= kIn; j++) {
            offset[j] += digit * p.strides[dim][j];
        }
    }
    return inner;
}

// ---- rows ---------------------------------------------------------------------------------------

// As load_packs, of a row of which each tensor has its offset; an input without a stride gives its
// one element to all lanes.
template <typename Out, typename... In, size_t... J>
__device__ inline void
load_row_packs(
    of<Out, In...>, std::index_sequence<J...>, const strided_operands<sizeof...(In)> &p,
    const int64_t *offset, int64_t i, words (&x)[sizeof...(In) + 1])
{
    constexpr int kLanes = of<Out, In...>::kLanes;
    ((x[J + 1] = p.strides[0][J + 1]
                     ? load_bytes<kLanes * sizeof(In)>(
                           static_cast<const In *>(p.at[J + 1]) + offset[J + 1] + i)
                     : splat<In, kLanes>(static_cast<const In *>(p.at[J + 1]) + offset[J + 1])),
     ...);
}

template <typename F, typename Types>
__device__ inline void
rows_body(const F &f, Types types, const strided_operands<Types::kIn> &p)
{
    constexpr int kLanes = Types::kLanes;
    constexpr inputs_of<Types> kInputs;
    uint32_t index = blockIdx.x * uint32_t{kBlock} + threadIdx.x;
    if (index >= p.n) {
        return;
    }
    int64_t offset[Types::kIn + 1];
    int64_t i = int64_t{locate_row(p, index, offset)} * kLanes - p.phase;

    if (i >= 0 && i + kLanes <= p.row) {
        words x[Types::kIn + 1];
        load_row_packs(types, kInputs, p, offset, i, x);
        store_pack_of(f, types, kInputs, p.at[0], offset[0] + i, x);
        return;
    }
    int64_t end = i + kLanes < p.row ? i + kLanes : p.row;
    for (i = i < 0 ? 0 : i; i < end; i++) {
        int64_t place[Types::kIn + 1];
#pragma unroll
        for (int j = 0; j <= Types::kIn; j++) {
            place[j] = offset[j] + i * p.strides[0][j];
        }
        element(f, types, kInputs, p.at, place);
    }
}

// ---- strided ------------------------------------------------------------------------------------

template <typename Out, typename... In, size_t... J>
__device__ inline void
load_elements(
    of<Out, In...>, std::index_sequence<J...>, void *const *at, const int64_t *offset,
    words (&x)[sizeof...(In) + 1])
{
    ((x[J + 1] = load_bytes<sizeof(In)>(static_cast<const In *>(at[J + 1]) + offset[J + 1])), ...);
}

template <typename F, typename Out, typename... In, size_t... J>
__device__ inline void
store_element(
    const F &f, of<Out, In...>, std::index_sequence<J...>, void *at, int64_t i,
    const words (&x)[sizeof...(In) + 1])
{
    store<Out>(at, i, f(lane_of<In>(x[J + 1], 0)...));
}

template <typename F, typename Types>
__device__ inline void
strided_body(const F &f, Types types, const strided_operands<Types::kIn> &p)
{
    constexpr inputs_of<Types> kInputs;
    uint32_t first = blockIdx.x * uint32_t{kBlock * kUnroll} + threadIdx.x;
    int64_t offset[kUnroll][Types::kIn + 1];
    words x[kUnroll][Types::kIn + 1];

#pragma unroll
    for (int u = 0; u < kUnroll; u++) {
        if (first + u * kBlock < p.n) {
            int64_t inner = locate_row(p, first + u * kBlock, offset[u]);
#pragma unroll
            for (int j = 0; j <= Types::kIn; j++) {
                offset[u][j] += inner * p.strides[0][j];
            }
            load_elements(types, kInputs, p.at, offset[u], x[u]);
        }
    }
#pragma unroll
    for (int u = 0; u < kUnroll; u++) {
        if (first + u * kBlock < p.n) {
            store_element(f, types, kInputs, p.at[0], offset[u][0], x[u]);
        }
    }
}

// ---- launches -----------------------------------------------------------------------------------

constexpr int64_t kMost = (int64_t{1} << 31) - 1; // packs or elements of one launch over views

// How far the first element of each tensor is in its pack; -1: they differ. A tensor whose stride
// is 0 has no say.
template <int kIn>
[[gnu::always_inline]] inline int
common_phase(
    void *const (&at)[kIn + 1], const int (&sizes)[kIn + 1], int lanes,
    const int64_t *strides = nullptr)
{
    int common = -1;
    for (int j = 0; j <= kIn; j++) {
        uintptr_t element = reinterpret_cast<uintptr_t>(at[j]) / static_cast<unsigned>(sizes[j]);
        int phase = static_cast<int>(element % static_cast<unsigned>(lanes));
        if (strides && strides[j] == 0) {
            continue;
        }
        if (common >= 0 && phase != common) {
            return -1;
        }
        common = phase;
    }
    return common;
}

template <int kIn> struct view_dim {
    int64_t size;
    int64_t strides[kIn + 1];
};

// The dims that have more than one element, sorted by the out's strides, so that neighbours in a
// launch are neighbours in its memory. Returns how many.
template <int kIn>
int
sort_dims(const aicf_view (&views)[kIn + 1], view_dim<kIn> (&dims)[AICF_MAX_RANK])
{
    int rank = 0;
    for (int64_t from = views[0].rank - 1; from >= 0; from--) {
        view_dim<kIn> dim = {views[0].sizes[from], {}};
        if (dim.size == 1) {
            continue;
        }
        for (int j = 0; j <= kIn; j++) {
            dim.strides[j] = views[j].strides[from];
        }
        auto reach = [](int64_t stride) { return stride < 0 ? -stride : stride; };
        int at = rank++;
        for (; at > 0 && reach(dims[at - 1].strides[0]) > reach(dim.strides[0]); at--) {
            dims[at] = dims[at - 1];
        }
        dims[at] = dim;
    }
    return rank;
}

// Whether rows can be moved by packs, each tensor's from the same phase on.
template <int kIn>
bool
has_rows(const view_dim<kIn> *dims, int rank, int lanes)
{
    if (lanes == 1 || rank == 0 || dims[0].strides[0] != 1 || dims[0].size < 2 * lanes) {
        return false;
    }
    for (int j = 0; j <= kIn; j++) {
        int64_t step = dims[0].strides[j];
        if (step != 0 && step != 1) {
            return false;
        }
        for (int dim = 1; step == 1 && dim < rank; dim++) {
            if (dims[dim].strides[j] % lanes != 0) {
                return false;
            }
        }
    }
    return true;
}

// Fills p, and returns how many packs or elements there are, more than kMost if need be.
template <int kIn>
int64_t
plan_views(
    const aicf_view (&views)[kIn + 1], const int (&sizes)[kIn + 1], int lanes,
    strided_operands<kIn> *p, bool *rows)
{
    view_dim<kIn> dims[AICF_MAX_RANK];
    *p = {};
    p->rank = sort_dims(views, dims);
    for (int j = 0; j <= kIn; j++) {
        p->at[j] = views[j].data;
    }
    p->phase = common_phase<kIn>(p->at, sizes, lanes, p->rank ? dims[0].strides : nullptr);
    *rows = p->phase >= 0 && has_rows(dims, p->rank, lanes);
    p->row = p->rank ? dims[0].size : 1;

    int64_t n = 1;
    for (int dim = 0; dim < p->rank; dim++) {
        int64_t size = dims[dim].size;
        if (dim == 0 && *rows) {
            size = ceil_div(p->phase + size, lanes);
        }
        n *= size;
        p->sizes[dim] = divider_of(size <= kMost ? size : 1);
        for (int j = 0; j <= kIn; j++) {
            p->strides[dim][j] = dims[dim].strides[j];
        }
    }
    p->n = static_cast<uint32_t>(n);
    return n;
}

// The longest dim cut in the middle.
template <int kIn>
void
halve(
    const aicf_view (&views)[kIn + 1], const int (&sizes)[kIn + 1], aicf_view (&low)[kIn + 1],
    aicf_view (&high)[kIn + 1])
{
    int longest = 0;
    for (int dim = 1; dim < views[0].rank; dim++) {
        longest = views[0].sizes[dim] > views[0].sizes[longest] ? dim : longest;
    }
    int64_t middle = views[0].sizes[longest] / 2;
    for (int j = 0; j <= kIn; j++) {
        low[j] = high[j] = views[j];
        low[j].sizes[longest] = middle;
        high[j].sizes[longest] -= middle;
        high[j].data =
            static_cast<char *>(views[j].data) + middle * views[j].strides[longest] * sizes[j];
    }
}

// Runs `rows` or `strided`, kernels made of the bodies above, on views of one shape, the out's
// first.
template <typename F, typename Types>
aicf_status
launch_views(
    void (*rows)(F, strided_operands<Types::kIn>), void (*strided)(F, strided_operands<Types::kIn>),
    F f, Types types, const aicf_view (&views)[Types::kIn + 1], aicf_stream stream)
{
    constexpr int kIn = Types::kIn;
    if (numel(&views[0]) == 0) {
        return aicf_ok();
    }
    strided_operands<kIn> p;
    bool by_rows;
    int64_t n = plan_views<kIn>(views, Types::kSizes, Types::kLanes, &p, &by_rows);
    if (n > kMost) {
        aicf_view low[kIn + 1], high[kIn + 1];
        halve<kIn>(views, Types::kSizes, low, high);
        aicf_status status = launch_views(rows, strided, f, types, low, stream);
        return status.kind ? status : launch_views(rows, strided, f, types, high, stream);
    }
    int each = by_rows ? kBlock : kBlock * kUnroll;
    unsigned blocks = static_cast<unsigned>(ceil_div(n, each));
    return aicf::launch(by_rows ? rows : strided, blocks, kBlock, 0, stream, f, p);
}

struct vec_plan {
    int64_t packs; // -1: phases differ
    edges e;
    unsigned blocks;
};

// Moves p from the first element to the first pack. `lanes` and `each` are kLanes and kPacks:
// where they are constants, nothing is divided.
template <int kIn>
[[gnu::always_inline]] inline vec_plan
plan_vec(operands<kIn> *p, const int (&sizes)[kIn + 1], int lanes, int each, int64_t n)
{
    int phase = common_phase<kIn>(p->at, sizes, lanes);
    if (phase < 0) {
        return {-1, {0, 0}, 0};
    }
    int head = phase == 0 ? 0 : static_cast<int>(n < lanes - phase ? n : lanes - phase);
    uint64_t rest = static_cast<uint64_t>(n - head);
    int64_t packs = static_cast<int64_t>(rest / static_cast<unsigned>(lanes));
    for (int j = 0; j <= kIn; j++) {
        p->at[j] = static_cast<char *>(p->at[j]) + head * sizes[j];
    }
    // One block at least, for the edges.
    int64_t blocks = packs == 0 ? 1 : ceil_div(packs, kBlock * each);
    edges e = {head, static_cast<int>(rest % static_cast<unsigned>(lanes))};
    return {packs, e, static_cast<unsigned>(blocks)};
}

// Runs `vec` on n elements or, where phases differ, `strided`.
template <typename F, typename Types>
aicf_status
launch_vec(
    void (*vec)(F, operands<Types::kIn>, int64_t, edges),
    void (*rows)(F, strided_operands<Types::kIn>), void (*strided)(F, strided_operands<Types::kIn>),
    F f, Types types, operands<Types::kIn> p, int64_t n, aicf_stream stream)
{
    constexpr int kIn = Types::kIn;
    if (n == 0) {
        return aicf_ok();
    }
    vec_plan plan = plan_vec<kIn>(&p, Types::kSizes, Types::kLanes, Types::kPacks, n);
    if (plan.packs < 0) {
        aicf_view views[kIn + 1];
        for (int j = 0; j <= kIn; j++) {
            views[j] = {p.at[j], 1, {n}, {1}};
        }
        return launch_views(rows, strided, f, types, views, stream);
    }
    if (kStartsEarly<F> && n * Types::kSizes[0] <= kSmall) {
        return launch_waiting(vec, plan.blocks, kBlock, 0, stream, f, p, plan.packs, plan.e);
    }
    return aicf::launch(vec, plan.blocks, kBlock, 0, stream, f, p, plan.packs, plan.e);
}

} // namespace aicf::elementwise

// The three kernels of an elementwise op and what launches them, in the op's own namespace:
//   run_vec(f, of<D, D>{}, operands_of(out, x), n, stream)
//   run_views(f, of<D, D>{}, {*out, *x}, stream)
#define AICF_ELEMENTWISE_KERNELS                                                           \
    using elementwise::operands_of;                                                        \
    using elementwise::of;                                                                 \
    template <typename F, typename Types>                                                  \
    __global__ void __launch_bounds__(elementwise::kBlock)                                 \
        vec(F f, elementwise::operands<Types::kIn> p, int64_t packs, elementwise::edges e) \
    {                                                                                      \
        elementwise::vec_body(f, Types{}, p, packs, e);                                    \
    }                                                                                      \
    template <typename F, typename Types>                                                  \
    __global__ void __launch_bounds__(elementwise::kBlock)                                 \
        rows(F f, const __grid_constant__ elementwise::strided_operands<Types::kIn> p)     \
    {                                                                                      \
        elementwise::rows_body(f, Types{}, p);                                             \
    }                                                                                      \
    template <typename F, typename Types>                                                  \
    __global__ void __launch_bounds__(elementwise::kBlock)                                 \
        strided(F f, const __grid_constant__ elementwise::strided_operands<Types::kIn> p)  \
    {                                                                                      \
        elementwise::strided_body(f, Types{}, p);                                          \
    }                                                                                      \
    template <typename F, typename Types>                                                  \
    aicf_status run_vec(                                                                   \
        F f, Types types, const elementwise::operands<Types::kIn> &p, int64_t n,           \
        aicf_stream stream)                                                                \
    {                                                                                      \
        return elementwise::launch_vec(                                                    \
            vec<F, Types>, rows<F, Types>, strided<F, Types>, f, types, p, n, stream);     \
    }                                                                                      \
    template <typename F, typename Types>                                                  \
    aicf_status run_views(                                                                 \
        F f, Types types, const aicf_view(&views)[Types::kIn + 1], aicf_stream stream)     \
    {                                                                                      \
        return elementwise::launch_views(                                                  \
            rows<F, Types>, strided<F, Types>, f, types, views, stream);                   \
    }

#endif
