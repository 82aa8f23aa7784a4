// Clusters that go over the rows of dense matrices (sm_90), where a block has the same columns of
// all rows and its threads keep what goes by column, weights and sums, in registers.
//
// Rows come into shared memory, several ahead, by copies of the whole 16 bytes that they lie
// across, so from any address. Of a row two sums are exchanged between the blocks, and while they
// are on their way those of the next row are added up: a step sums row i and finishes row i - 1.
#ifndef AICF_CUDA_PARTS_CUH
#define AICF_CUDA_PARTS_CUH

#include <aicf/cuda/lanes.cuh>
#include <aicf/cuda/rows.cuh>

namespace aicf::parts {

constexpr int kThreads = 512, kWarps = kThreads / rows::kWarp;
constexpr int kMostStages = 6, kLeastStages = 3;
constexpr int kStageBytes = 200 * 1024; // of all stages
constexpr int kWordBytes = 4;           // a thread has the words rank, rank + kThreads, ...
template <typename T> constexpr int kPer = kWordBytes / static_cast<int>(sizeof(T));

// ---- launches -----------------------------------------------------------------------------------

struct plan {
    int parts;  // blocks of a cluster: 2, 4 or 8
    int share;  // columns of one at most
    int stages; // rows of which parts are in shared memory
    int pitch;  // bytes of what a stage has of one tensor
    int bytes;  // of a stage
};

constexpr int kDevices = 16;

// A launch of clusters of so many blocks.
struct blocks {
    int parts;
    unsigned threads;
    int shared; // bytes of a block, the same at each launch of a kernel
    aicf_stream stream;
};

inline blocks
blocks_of(const plan &s, aicf_stream stream)
{
    return {s.parts, kThreads, kStageBytes, stream};
}

// Of L rows of N elements in kTensors tensors, of which a thread has kWords words at most; few rows
// are dealt to as many blocks as there are. Requires N * item <= 32 * kThreads * kWords.
template <int kWords, int kTensors>
plan
plan_for(int64_t L, int64_t N, int item)
{
    constexpr int kMost = kThreads * kWords * kWordBytes; // bytes of a block's columns
    static_assert(kLeastStages * kTensors * (kMost + 2 * kPackBytes) <= kStageBytes, "");
    int64_t machine = rows::multiprocessors();
    plan s;
    s.parts = 2;
    while (s.parts < rows::kClusterBlocks &&
           (N * item > int64_t{s.parts} * kMost || L * 2 * s.parts <= machine)) {
        s.parts *= 2;
    }
    s.share = static_cast<int>(ceil_div(ceil_div(N, s.parts), kPackBytes) * kPackBytes);
    s.pitch = s.share * item + 2 * kPackBytes;
    s.bytes = kTensors * s.pitch;
    s.stages = kStageBytes / s.bytes < kMostStages ? kStageBytes / s.bytes : kMostStages;
    return s;
}

struct configuration {
    cudaLaunchAttribute attributes[2] = {};
    cudaLaunchConfig_t how = {};

    configuration(const blocks &b, int64_t clusters)
    {
        int count = 0;
        if (b.parts > 1) {
            cudaLaunchAttribute &cluster = attributes[count++];
            cluster.id = cudaLaunchAttributeClusterDimension;
            cluster.val.clusterDim.x = static_cast<unsigned>(b.parts);
            cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
        }
        attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attributes[count].val.programmaticStreamSerializationAllowed = 1;
        count += launches_overlap() ? 1 : 0;
        how.gridDim = dim3(static_cast<unsigned>(clusters * b.parts));
        how.blockDim = dim3(b.threads);
        how.dynamicSmemBytes = static_cast<size_t>(b.shared);
        how.stream = reinterpret_cast<cudaStream_t>(b.stream);
        how.attrs = attributes;
        how.numAttrs = static_cast<unsigned>(count);
    }
    configuration(const configuration &) = delete;
};

// How many clusters of a kernel run at once on the current device: groups of multiprocessors differ
// in size. Asked once a kernel, device and size of a cluster, of the most threads.
template <typename... P>
int64_t
clusters_at_once(void (*kernel)(P...), const blocks &b)
{
    static int known[kDevices][rows::kClusterBlocks + 1];
    int device = 0, count = 0;
    bool keeps = cudaGetDevice(&device) == cudaSuccess && device >= 0 && device < kDevices;
    if (keeps) {
        count = __atomic_load_n(&known[device][b.parts], __ATOMIC_RELAXED);
    }
    if (count > 0) {
        return count;
    }
    configuration one(b, 1);
    one.how.numAttrs = 1;
    if (allow_shared(kernel, b.shared).kind ||
        cudaOccupancyMaxActiveClusters(&count, kernel, &one.how) != cudaSuccess || count < 1) {
        cudaGetLastError();
        return 1; // the launch says what is wrong
    }
    if (keeps) {
        __atomic_store_n(&known[device][b.parts], count, __ATOMIC_RELAXED);
    }
    return count;
}

// Launches `kernel`, which starts with rows::begin(), by so many clusters.
template <typename... P>
aicf_status
launch(void (*kernel)(P...), int64_t clusters, const blocks &b, typename exactly<P>::type... args)
{
    aicf_status status = allow_shared(kernel, b.shared);
    if (status.kind) {
        return status;
    }
    configuration all(b, clusters);
    void *pointers[] = {const_cast<void *>(static_cast<const void *>(&args))...};
    cudaError_t error =
        cudaLaunchKernelExC(&all.how, reinterpret_cast<const void *>(kernel), pointers);
    if (error != cudaSuccess) {
        cudaGetLastError();
    }
    return status_of(error);
}

// ---- stages -------------------------------------------------------------------------------------

__device__ inline int
phase(const void *p)
{
    return static_cast<int>(reinterpret_cast<uintptr_t>(p) % kPackBytes);
}

// The part [from, from + columns) of a tensor of `count` elements on its way to a stage, where it
// has the phase that it has in memory.
template <typename T> struct transfer {
    const T *from, *end;
    const char *begin, *stop; // what is copied: as much of the packs as lies in the tensor

    __device__ transfer(const T *tensor, int64_t count, int64_t at, int columns)
        : from(tensor + at), end(from + columns)
    {
        const char *low = reinterpret_cast<const char *>(tensor);
        const char *high = reinterpret_cast<const char *>(tensor + count);
        begin = reinterpret_cast<const char *>(from) - phase(from);
        begin += begin < low ? kPackBytes : 0;
        stop = reinterpret_cast<const char *>(end);
        stop += (kPackBytes - phase(end)) % kPackBytes;
        stop -= stop > high ? kPackBytes : 0;
        stop = stop < begin ? begin : stop;
    }

    __device__ uint32_t bytes() const
    {
        return static_cast<uint32_t>(stop - begin);
    }

    __device__ void copy(char *to, uint32_t barrier) const
    {
        const char *origin = reinterpret_cast<const char *>(from) - phase(from);
        if (bytes() == 0) {
            return;
        }
        ptx::copy_bulk(ptx::shared_address(to + (begin - origin)), begin, bytes(), barrier);
    }

    // The elements that no whole pack of the tensor has, in its first row or its last.
    __device__ void copy_ends(char *to, int lane) const
    {
        T *row = reinterpret_cast<T *>(to + phase(from));
        const T *head = reinterpret_cast<const T *>(begin);
        const T *tail = reinterpret_cast<const T *>(stop);
        if (head <= from && end <= tail) {
            return;
        }
        if (from + lane < head && from + lane < end) {
            row[lane] = from[lane];
        }
        if (tail + lane < end) {
            row[tail - from + lane] = tail[lane];
        }
        ptx::copy_engine_fence();
    }
};

// ---- words --------------------------------------------------------------------------------------

// The columns of a word in shared memory; kOdd: it may lie across two.
template <bool kOdd, typename T>
__device__ inline void
read(const char *at, float (&v)[kPer<T>], T)
{
    if constexpr (kOdd && kPer<T> == 2) {
        v[0] = to_f32(*reinterpret_cast<const T *>(at));
        v[1] = to_f32(*reinterpret_cast<const T *>(at + sizeof(T)));
    } else {
        unpack_word(*reinterpret_cast<const uint32_t *>(at), v, T{});
    }
}

// Writes v to out and its neighbours, for all lanes of a warp, where out is not on a word's
// boundary: by words all the same, each of two lanes. `there`: whether this lane and the next one
// have any.
template <typename T>
__device__ inline void
write_across(T *out, const float (&v)[2], bool there, bool next)
{
    int lane = static_cast<int>(threadIdx.x) % rows::kWarp;
    float pair[2] = {v[1], __shfl_down_sync(0xffffffff, v[0], 1)};
    if (there && lane == 0) {
        out[0] = of_f32<T>(v[0]);
    }
    if (there && next && lane < rows::kWarp - 1) {
        *reinterpret_cast<uint32_t *>(out + 1) = pack_word(pair, T{});
    } else if (there) {
        out[1] = of_f32<T>(v[1]);
    }
}

// ---- columns ------------------------------------------------------------------------------------

// The columns [first, first + count) of rows of N, which a block has. A thread has kWords words of
// them at most, and one the last column of a row of odd length.
template <typename T, int kWords> struct part {
    static constexpr int kGroup = 4;

    int64_t first;
    int count, words;

    __device__ part(int64_t N, int share) : first(int64_t{ptx::cluster_rank()} * share)
    {
        int64_t rest = N > first ? N - first : 0;
        count = rest < share ? static_cast<int>(rest) : share;
        words = count / kPer<T>;
    }

    __device__ bool has_last() const
    {
        return kPer<T> > 1 && count % kPer<T> != 0 && threadIdx.x == kThreads - 1;
    }

    // Calls f(k, column) for the words of this thread.
    template <typename Function> __device__ void each(Function f) const
    {
        int rank = static_cast<int>(threadIdx.x);
#pragma unroll
        for (int k = 0; k < kWords; k++) {
            if (rank + k * kThreads < words) {
                f(k, (rank + k * kThreads) * kPer<T>);
            }
        }
    }

    // The same where it pays that the loads of several words are on their way together: for groups
    // of words that all threads have there is no branch between them.
    template <typename Function> __device__ void each_group(Function f) const
    {
        int rank = static_cast<int>(threadIdx.x);
#pragma unroll
        for (int k = 0; k < kWords; k += kGroup) {
            if ((k + kGroup) * kThreads <= words) {
#pragma unroll
                for (int g = k; g < k + kGroup; g++) {
                    f(g, (rank + g * kThreads) * kPer<T>);
                }
            } else {
#pragma unroll
                for (int g = k; g < k + kGroup; g++) {
                    if (rank + g * kThreads < words) {
                        f(g, (rank + g * kThreads) * kPer<T>);
                    }
                }
            }
        }
    }

    // Calls f(k, column, v), which says in v what is to be written to out + column, where that is
    // wanted. kOdd: out may not be on a word's boundary.
    template <bool kOdd, typename Function>
    __device__ void map(T *out, bool wanted, Function f) const
    {
        if constexpr (kOdd && kPer<T> == 2) {
            if (phase(out) % kWordBytes != 0) {
                map_across(out, wanted, f);
                return;
            }
        }
        each_group([&](int k, int column) {
            float v[kPer<T>];
            f(k, column, v);
            if (wanted) {
                *reinterpret_cast<uint32_t *>(out + column) = pack_word(v, T{});
            }
        });
    }

    template <typename Function> __device__ void map_across(T *out, bool wanted, Function f) const
    {
        int rank = static_cast<int>(threadIdx.x), warp = rank / rows::kWarp * rows::kWarp;
#pragma unroll
        for (int k = 0; k < kWords; k++) {
            int word = rank + k * kThreads, column = word * kPer<T>;
            if (warp + k * kThreads < words) {
                float v[kPer<T>] = {};
                if (word < words) {
                    f(k, column, v);
                }
                if (wanted) {
                    write_across(out + column, v, word < words, word + 1 < words);
                }
            }
        }
    }

    // What the block has of a row that starts at `at` of a tensor of `all` elements.
    __device__ transfer<T> of(const T *tensor, int64_t all, int64_t at) const
    {
        return transfer<T>(tensor, all, at + first, count);
    }
};

// ---- exchange -----------------------------------------------------------------------------------

// Two sums of a row, of all threads of a cluster. Two rooms take turns: rows of even and of odd
// index.
struct mail {
    float2 warps[2][kWarps];                // of the warps of this block
    float2 blocks[2][rows::kClusterBlocks]; // sent by the blocks
    uint64_t sent[2];                       // counts what they send

    // Before a barrier of the cluster, by all threads.
    __device__ void begin()
    {
        int thread = static_cast<int>(threadIdx.x);
        if (thread < 2 * rows::kClusterBlocks) {
            blocks[thread / rows::kClusterBlocks][thread % rows::kClusterBlocks] = {0.0f, 0.0f};
        }
        if (thread == 0) {
            ptx::barrier_init(ptx::shared_address(&sent[0]), 1);
            ptx::barrier_init(ptx::shared_address(&sent[1]), 1);
        }
    }

    // All threads of a block put what they have; behind a barrier of it, its first warp sends.
    __device__ void put(int64_t i, float (&sum)[1][2])
    {
        rows::reduce_lanes(sum, rows::kWarp, rows::add{});
        if (threadIdx.x % rows::kWarp == 0) {
            warps[i & 1][threadIdx.x / rows::kWarp] = {sum[0][0], sum[0][1]};
        }
    }

    __device__ void send(int64_t i)
    {
        static_assert(kWarps >= rows::kClusterBlocks, "each lane that sends has the sum");
        int lane = static_cast<int>(threadIdx.x), turn = static_cast<int>(i & 1);
        int count = static_cast<int>(ptx::cluster_size());
        float2 from = lane < kWarps ? warps[turn][lane] : float2{0.0f, 0.0f};
        float sum[1][2] = {{from.x, from.y}};
        rows::reduce_lanes(sum, kWarps, rows::add{});
        uint32_t barrier = ptx::shared_address(&sent[turn]);
        if (lane == 0) {
            ptx::barrier_expect(barrier, static_cast<uint32_t>(count) * uint32_t{sizeof(float2)});
        }
        if (lane < count) {
            uint32_t to = static_cast<uint32_t>(lane);
            float2 *entry = &blocks[turn][ptx::cluster_rank()];
            uint32_t there = ptx::address_in_block(barrier, to);
            ptx::send_cluster(
                ptx::address_in_block(ptx::shared_address(&entry->x), to), sum[0][0], there);
            ptx::send_cluster(
                ptx::address_in_block(ptx::shared_address(&entry->y), to), sum[0][1], there);
        }
        __syncwarp();
    }

    // The sums of all blocks, once they are there.
    __device__ void get(int64_t i, float (&sum)[2])
    {
        int turn = static_cast<int>(i & 1);
        ptx::barrier_wait(ptx::shared_address(&sent[turn]), static_cast<uint32_t>(i >> 1 & 1));
        sum[0] = sum[1] = 0.0f;
#pragma unroll
        for (int from = 0; from < rows::kClusterBlocks; from++) {
            sum[0] += blocks[turn][from].x;
            sum[1] += blocks[turn][from].y;
        }
    }
};

// ---- rows ---------------------------------------------------------------------------------------

// Goes over the `count` rows of this cluster. Work has
//
//     fetch(i, stage, full)     has what the block has of row i come to the stage, counted by
//                               `full`: one warp
//     look(i)                   asks for what else row i needs
//     next()                    what was asked for last is that of the row to be added up now
//     add_up(i, stage, sum)     the sums of this thread over row i
//     finish(i, stage, sum)     the sums of all threads over row i are there: the last use of it
template <typename Work>
__device__ inline void
over_rows(Work &work, int64_t count, const plan &s, char *stages, mail &room)
{
    __shared__ uint64_t full[kMostStages];
    int warp = static_cast<int>(threadIdx.x) / rows::kWarp;

    room.begin();
    if (threadIdx.x == 0) {
        for (int i = 0; i < s.stages; i++) {
            ptx::barrier_init(ptx::shared_address(&full[i]), 1);
        }
        ptx::barrier_init_fence();
    }
    __syncthreads();
    if (warp == 1) {
        for (int i = 0; i < s.stages && i < count; i++) {
            work.fetch(i, stages + i * s.bytes, &full[i]);
        }
        __syncwarp();
    }
    ptx::cluster_arrive();
    if (count > 0) {
        work.look(0);
    }
    ptx::cluster_wait(); // the barriers of all blocks are there, and the ends of this one's rows

    int slot = 0, before = 0;
    uint32_t parity = 0;
#pragma unroll 1
    for (int64_t i = 0; i <= count && count > 0; i++) {
        work.next();
        if (i + 1 < count) {
            work.look(i + 1);
        }
        if (i < count) {
            float sum[1][2] = {};
            ptx::barrier_wait(ptx::shared_address(&full[slot]), parity);
            work.add_up(i, stages + slot * s.bytes, sum[0]);
            room.put(i, sum);
        }
        if (i > 0) {
            float sum[2];
            room.get(i - 1, sum);
            work.finish(i - 1, stages + before * s.bytes, sum);
        }
        __syncthreads();
        if (warp == 0 && i < count) {
            room.send(i);
        }
        if (warp == 1 && i > 0 && i - 1 + s.stages < count) {
            work.fetch(i - 1 + s.stages, stages + before * s.bytes, &full[before]);
            __syncwarp();
        }
        before = slot;
        slot = slot + 1 < s.stages ? slot + 1 : 0;
        parity ^= slot == 0;
    }
}

} // namespace aicf::parts

#endif
