// gemm by cuBLASLt, a library that is opened when a call asks for it (see gemm.cuh for the
// operands): f32, f16 and bf16 in every layout, f32 sums; tf32 for f32 where the caller allows it.
// Requires K above 0, an alpha that is not 0, which keeps it from seeing the NaN of a and b, and
// rows that do not overlap. c and the bias are its epilogue's, of f32 alone: of 16 bits it rounds
// the product before it adds them. Its relu drops NaN, its gelu is another one: an activation is
// left to the kernels before this one.
//
// The library knows matrices whose columns lie together: it is asked for the transposed product,
// out' = b' a'. Batch dims that do not merge are calls that follow each other.
#include "batches.cuh"

#include <cublasLt.h>
#include <pthread.h>

#include <type_traits>

namespace aicf::gemm {

// ---- the library --------------------------------------------------------------------------------

struct lt_calls {
    decltype(&cublasLtCreate) create;
    decltype(&cublasLtMatmul) matmul;
    decltype(&cublasLtMatmulAlgoGetHeuristic) choose;
    decltype(&cublasLtMatmulDescCreate) make_product;
    decltype(&cublasLtMatmulDescSetAttribute) set_product;
    decltype(&cublasLtMatmulDescDestroy) end_product;
    decltype(&cublasLtMatrixLayoutCreate) make_matrix;
    decltype(&cublasLtMatrixLayoutSetAttribute) set_matrix;
    decltype(&cublasLtMatrixLayoutDestroy) end_matrix;
    decltype(&cublasLtMatmulPreferenceCreate) make_wish;
    decltype(&cublasLtMatmulPreferenceSetAttribute) set_wish;
    decltype(&cublasLtMatmulPreferenceDestroy) end_wish;
};

constexpr int kMostDevices = 64;

static struct {
    pthread_mutex_t lock;
    bool found; // calls are all there
    lt_calls calls;
    cublasLtHandle_t handles[kMostDevices]; // one a device, made at its first product and kept
} lt = {PTHREAD_MUTEX_INITIALIZER, false, {}, {}};

template <typename F>
inline bool
find_call(const char *name, F *call)
{
    *call = reinterpret_cast<F>(aicf_lib_symbol("cublasLt", name));
    return *call;
}

inline bool
find_calls(lt_calls *c)
{
    return find_call("cublasLtCreate", &c->create) && find_call("cublasLtMatmul", &c->matmul) &&
           find_call("cublasLtMatmulAlgoGetHeuristic", &c->choose) &&
           find_call("cublasLtMatmulDescCreate", &c->make_product) &&
           find_call("cublasLtMatmulDescSetAttribute", &c->set_product) &&
           find_call("cublasLtMatmulDescDestroy", &c->end_product) &&
           find_call("cublasLtMatrixLayoutCreate", &c->make_matrix) &&
           find_call("cublasLtMatrixLayoutSetAttribute", &c->set_matrix) &&
           find_call("cublasLtMatrixLayoutDestroy", &c->end_matrix) &&
           find_call("cublasLtMatmulPreferenceCreate", &c->make_wish) &&
           find_call("cublasLtMatmulPreferenceSetAttribute", &c->set_wish) &&
           find_call("cublasLtMatmulPreferenceDestroy", &c->end_wish);
}

// The current device's handle; NULL where the library has none. To make one allocates, which a
// stream that is being captured somewhere forbids unless this thread says that it is not part of
// it.
inline cublasLtHandle_t
handle_of_device()
{
    int device = 0;
    if (cudaGetDevice(&device) != cudaSuccess || device >= kMostDevices) {
        return nullptr;
    }
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    pthread_mutex_lock(&lt.lock);
    lt.found = lt.found || find_calls(&lt.calls);
    if (lt.found && !lt.handles[device] &&
        cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess) {
        if (lt.calls.create(&lt.handles[device]) != CUBLAS_STATUS_SUCCESS) {
            lt.handles[device] = nullptr;
        }
        cudaThreadExchangeStreamCaptureMode(&mode);
    }
    cublasLtHandle_t handle = lt.handles[device];
    pthread_mutex_unlock(&lt.lock);
    return handle;
}

inline aicf_status
status_of_lt(cublasStatus_t status)
{
    return status_of(
        status == CUBLAS_STATUS_SUCCESS        ? cudaSuccess
        : status == CUBLAS_STATUS_ALLOC_FAILED ? cudaErrorMemoryAllocation
                                               : cudaErrorNotSupported);
}

// ---- a product ----------------------------------------------------------------------------------

// What a product is asked with: made whole, or not at all.
struct lt_request {
    cublasLtMatmulDesc_t product = nullptr;
    cublasLtMatmulPreference_t wish = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr, out = nullptr;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;

    lt_request() = default;
    lt_request(const lt_request &) = delete;

    ~lt_request()
    {
        for (cublasLtMatrixLayout_t m : {a, b, c, out}) {
            if (m) {
                lt.calls.end_matrix(m);
            }
        }
        if (wish) {
            lt.calls.end_wish(wish);
        }
        if (product) {
            lt.calls.end_product(product);
        }
    }

    // The first fault stays; after it nothing more is asked.
    template <typename Call> void then(Call call)
    {
        status = status == CUBLAS_STATUS_SUCCESS ? call() : status;
    }

    template <typename V> void say(cublasLtMatmulDescAttributes_t what, V value)
    {
        then([&] { return lt.calls.set_product(product, what, &value, sizeof value); });
    }

    template <typename V> void wish_for(cublasLtMatmulPreferenceAttributes_t what, V value)
    {
        then([&] { return lt.calls.set_wish(wish, what, &value, sizeof value); });
    }

    // `lines` of `length` neighbours, `count` times.
    void matrix(
        cublasLtMatrixLayout_t *m, cudaDataType type, int64_t length, int64_t lines, int64_t pitch,
        int64_t count, int64_t step)
    {
        int32_t matrices = static_cast<int32_t>(count);
        then([&] {
            return lt.calls.make_matrix(
                m, type, static_cast<uint64_t>(length), static_cast<uint64_t>(lines),
                lines > 1 ? pitch : length);
        });
        then([&] {
            return lt.calls.set_matrix(
                *m, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &matrices, sizeof matrices);
        });
        then([&] {
            return lt.calls.set_matrix(
                *m, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step);
        });
    }
};

// The largest power of two that the address is a multiple of, up to what the library asks for.
inline uint32_t
alignment_of(const void *data)
{
    uint32_t bytes = 256;
    while (reinterpret_cast<uintptr_t>(data) % bytes) {
        bytes /= 2;
    }
    return bytes;
}

template <typename T>
constexpr cudaDataType kLtType = std::is_same_v<T, float>      ? CUDA_R_32F
                                 : std::is_same_v<T, aicf_f16> ? CUDA_R_16F
                                                               : CUDA_R_16BF;

// Parts of a sum are added in f32 alone, and in an order that does not change.
template <typename T>
void
describe(lt_request &r, const problem<T> &p, int64_t count, bool tf32, uint64_t workspace)
{
    constexpr cudaDataType kType = kLtType<T>;
    r.then([&] {
        return lt.calls.make_product(
            &r.product, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F);
    });
    r.say(CUBLASLT_MATMUL_DESC_TRANSA, p.b_along_k ? CUBLAS_OP_T : CUBLAS_OP_N);
    r.say(CUBLASLT_MATMUL_DESC_TRANSB, p.a_along_k ? CUBLAS_OP_N : CUBLAS_OP_T);
    const void *bias = p.bias;
    if (bias) {
        r.say(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
        r.say(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    }
    const T *c = p.c ? p.c : p.out;
    int64_t c_pitch = p.c ? p.c_pitch : p.out_pitch;
    int64_t c_step = p.c ? p.c_batch[0] : p.out_batch[0];
    r.matrix(
        &r.a, kType, p.b_along_k ? p.K : p.N, p.b_along_k ? p.N : p.K, p.b_pitch, count,
        p.b_batch[0]);
    r.matrix(
        &r.b, kType, p.a_along_k ? p.K : p.M, p.a_along_k ? p.M : p.K, p.a_pitch, count,
        p.a_batch[0]);
    r.matrix(&r.c, kType, p.N, p.M, c_pitch, count, c_step);
    r.matrix(&r.out, kType, p.N, p.M, p.out_pitch, count, p.out_batch[0]);

    uint32_t of_bias = bias ? alignment_of(bias) : 256, of_out = alignment_of(p.out);
    r.then([&] { return lt.calls.make_wish(&r.wish); });
    r.wish_for(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace);
    r.wish_for(
        CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    r.wish_for(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(p.b));
    r.wish_for(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(p.a));
    r.wish_for(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(c));
    r.wish_for(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, of_bias < of_out ? of_bias : of_out);
}

constexpr uint64_t kLtWorkspace = 32 << 20; // what the row says

// The matrices of batch dim 0.
template <typename T>
aicf_status
multiply_lt(
    cublasLtHandle_t handle, const problem<T> &p, bool tf32, void *workspace, aicf_stream stream)
{
    lt_request r;
    describe(r, p, p.batch_sizes[0], tf32, kLtWorkspace);
    cublasLtMatmulHeuristicResult_t chosen = {};
    int found = 0;
    const T *c = p.c ? p.c : p.out;
    const float beta = p.c ? p.beta : 0.0f;
    r.then([&] {
        return lt.calls.choose(handle, r.product, r.a, r.b, r.c, r.out, r.wish, 1, &chosen, &found);
    });
    r.then([&] {
        return found == 0 ? CUBLAS_STATUS_NOT_SUPPORTED
                          : lt.calls.matmul(
                                handle, r.product, &p.alpha, p.b, r.a, p.a, r.b, &beta, c, r.c,
                                p.out, r.out, &chosen.algo, workspace, kLtWorkspace,
                                reinterpret_cast<cudaStream_t>(stream));
    });
    return status_of_lt(r.status);
}

template <typename T>
aicf_status
launch_lt(problem<T> p, bool tf32, void *workspace, aicf_stream stream)
{
    cublasLtHandle_t handle = handle_of_device();
    if (!handle) {
        return status_of(cudaErrorNotSupported);
    }
    merge_batches(p);
    choose_mapped(p);
    int64_t launches = 1;
    for (int dim = 1; dim < p.batch_rank; dim++) {
        launches *= p.batch_sizes[dim];
    }
    for (int64_t i = 0; i < launches; i++) {
        problem<T> now = p;
        int64_t rest = i;
        for (int dim = 1; dim < p.batch_rank; dim++) {
            advance(now, dim, rest % p.batch_sizes[dim]);
            rest /= p.batch_sizes[dim];
        }
        aicf_status status = multiply_lt(handle, now, tf32, workspace, stream);
        if (status.kind) {
            return status;
        }
    }
    return aicf_ok();
}

} // namespace aicf::gemm

#define LAUNCHER(kernel, T, suffix)                                                            \
    aicf_status aicf_cuda_gemm_##kernel##_##suffix(                                            \
        const aicf_view *a, const aicf_view *b, const T *bias, const aicf_view *c,             \
        const aicf_view *out, int64_t, int64_t M, int64_t K, int64_t, int64_t N, double alpha, \
        double beta, aicf_gemm_act act, aicf_gemm_precision precision, void *workspace,        \
        aicf_stream stream)                                                                    \
    {                                                                                          \
        return aicf::gemm::launch_lt(                                                          \
            aicf::gemm::problem_of(a, b, bias, c, out, M, K, N, alpha, beta, act),             \
            precision == AICF_GEMM_PRECISION_TF32, workspace, stream);                         \
    }

LAUNCHER(lt, float, f32)
LAUNCHER(lt_half, aicf_f16, f16)
LAUNCHER(lt_half, aicf_bf16, bf16)
