// Part of steady.cuh: how rows are dealt to clusters, in teams and spells, and launched.
#ifndef AICF_CUDA_STEADY_PLAN_CUH
#define AICF_CUDA_STEADY_PLAN_CUH

#include <aicf/cuda/parts.cuh>
#include <aicf/cuda/rows.cuh>

namespace aicf::steady {

constexpr int kThreads = 512; // of a block at most
constexpr int kMostStages = 6, kLeastStages = 3;

// ---- launches -----------------------------------------------------------------------------------

// What a kernel is made for: packs of a row that a thread has at most, tensors that come to shared
// memory, blocks of a multiprocessor.
template <int kPacks_, int kTensors_, int kBlocks_> struct form {
    static constexpr int kPacks = kPacks_, kTensors = kTensors_, kBlocks = kBlocks_;
    static constexpr int64_t kMost = int64_t{kThreads} * kPacks; // packs of a block
    // Bytes of shared memory that a block takes, for all of its stages.
    static constexpr int kShared = kBlocks == 1 ? 200 << 10 : 100 << 10;
    static_assert(kLeastStages * kTensors * kMost * kPackBytes <= kShared, "");
};

struct plan {
    rows::shape shape;
    int64_t at_once; // clusters that run side by side
    int64_t teams;   // clusters
    int64_t period;  // of spells; 0: each team has one, of every teams-th row
    int parts;       // blocks of one: 1, 2, 4 or 8
    int threads;     // of a block
    int stages;      // rows of which parts are in shared memory
    int room;        // bytes of what a stage has of one tensor
    int bytes;       // of a stage
};

constexpr int64_t
common_divisor(int64_t a, int64_t b)
{
    return b == 0 ? a : common_divisor(b, a % b);
}

// How many rows on one starts at the same place of `bytes` bytes again.
inline int64_t
period_of(const rows::shape &s, int item, int64_t bytes)
{
    return bytes / common_divisor(bytes, int64_t{s.n} * item);
}

// So many of `most` teams that each has rows of one phase, at one place of a line or of a sector of
// 32 bytes too where that leaves no more than a quarter of the machine idle: 0 if there are none.
inline int64_t
teams_for(const rows::shape &s, int item, int64_t most)
{
    if (most >= s.count) {
        return s.count;
    }
    for (int64_t bytes = rows::kLineBytes; bytes > kPackBytes; bytes /= 2) {
        int64_t period = period_of(s, item, bytes), teams = most / period * period;
        if (teams * 16 >= most * (bytes == rows::kLineBytes ? 15 : 12)) {
            return teams;
        }
    }
    int64_t period = period_of(s, item, kPackBytes);
    return most / period * period;
}

// Of so many packs, dealt to threads in turns, how many the busiest scheduler has of warps of them.
constexpr int64_t
busiest(int64_t packs, int64_t threads)
{
    constexpr int64_t kSchedulers = 4; // of a multiprocessor
    int64_t rest = ceil_div(packs % threads, rows::kWarp);
    return packs / threads * ceil_div(threads / rows::kWarp, kSchedulers) +
           ceil_div(rest, kSchedulers);
}

// Whether rows of s are for `Form`, and how. They are where no cluster has too many packs of one
// and all tensors have the phase of the first: the caller sees to that.
template <typename Form, typename... P>
bool
plan_for(void (*kernel)(P...), const rows::shape &shape, int item, plan &s)
{
    int64_t packs = int64_t{shape.n} * item / kPackBytes;
    s.shape = shape;
    s.shape.lines = int64_t{shape.n} * item % rows::kLineBytes != 0;
    packs += s.shape.lines ? rows::kLinePacks - 1 : 0;
    if (packs > Form::kMost * rows::kClusterBlocks) {
        return false;
    }
    int64_t machine = rows::multiprocessors() * Form::kBlocks;
    s.parts = 1;
    while (s.parts < rows::kClusterBlocks &&
           (packs > s.parts * Form::kMost || shape.count * 2 * s.parts <= machine)) {
        s.parts *= 2;
    }
    s.at_once = s.parts == 1
                    ? machine
                    : parts::clusters_at_once(kernel, {s.parts, kThreads, Form::kShared, {}});
    s.teams = teams_for(shape, item, s.at_once);
    int64_t lines = ceil_div(ceil_div(packs, s.parts), rows::kLinePacks);
    s.shape.share = static_cast<int>((lines > 0 ? lines : 1) * rows::kLinePacks);
    // As many threads as have equally much, or more if that is less for a scheduler.
    s.threads = static_cast<int>(
        rows::threads_for(s.shape.share, static_cast<int>(ceil_div(s.shape.share, kThreads))));
    s.threads =
        busiest(s.shape.share, kThreads) < busiest(s.shape.share, s.threads) ? kThreads : s.threads;
    s.period = 0;
    s.room = s.shape.share * kPackBytes;
    s.bytes = Form::kTensors * s.room;
    int stages = Form::kShared / s.bytes;
    s.stages = stages < kMostStages ? stages : kMostStages;
    return s.teams > 0 && shape.count / s.teams < INT32_MAX;
}

constexpr int64_t kLongSpell = 64; // rows: what a spell begins with is little beside them

// By so many teams as run at once, `most` at most, where those that have one phase each leave more
// than a sixteenth of the machine idle: by spells, which start at one place of a sector of 32
// bytes.
inline void
deal_by_spells(plan &s, int item, int64_t most)
{
    int64_t teams = s.at_once < most ? s.at_once : most;
    int64_t period = period_of(s.shape, item, 2 * kPackBytes);
    if (s.teams * 16 < teams * 15 &&
        s.shape.count >= kLongSpell * (teams < period ? period : teams)) {
        s.teams = teams;
        s.period = period;
    }
}

// Launches `kernel`, which waits for the launch before it.
template <typename Form, typename... P>
aicf_status
launch(void (*kernel)(P...), const plan &s, aicf_stream stream, typename exactly<P>::type... args)
{
    return parts::launch(
        kernel, s.teams, {s.parts, static_cast<unsigned>(s.threads), Form::kShared, stream},
        args...);
}

// ---- spells -------------------------------------------------------------------------------------

// The rows first, first + stride, ..., of one phase.
struct spell {
    int64_t first, stride;
    int count;
};

// Rows sorted by what they are modulo s.period, dealt to teams in equal parts: what a team has is a
// spell or a few. The one that starts at place `from` of that order and goes no further than `end`.
__device__ inline spell
spell_at(const plan &s, int64_t from, int64_t end)
{
    int64_t least = s.shape.count / s.period, longer = s.shape.count % s.period;
    int64_t of_longer = longer * (least + 1);
    bool is_longer = from < of_longer;
    int64_t size = is_longer ? least + 1 : least, past = is_longer ? from : from - of_longer;
    int64_t first = past / size + (is_longer ? 0 : longer), index = past % size;
    int64_t count = end - from < size - index ? end - from : size - index;
    return {first + index * s.period, s.period, static_cast<int>(count)};
}

// What a cluster has of the rows, in the order above: it goes over a spell at a time.
struct dealt {
    spell of;
    int64_t from, end; // places of what is left

    dealt() = default;

    __device__ explicit dealt(const plan &s)
    {
        int64_t team = ptx::cluster_index(), teams = s.teams, count = s.shape.count;
        from = s.period > 0 ? team * count / teams : 0;
        end = s.period > 0 ? (team + 1) * count / teams : 0;
        of = {team, teams, static_cast<int>((count - team + teams - 1) / teams)};
        if (s.period > 0) {
            next(s);
        }
    }

    __device__ void next(const plan &s)
    {
        of = spell_at(s, from, end);
        from += of.count;
    }
};

// Calls f() for each spell of `rows`, in shared memory, where one thread has put it: by all
// threads.
template <typename Function>
__device__ inline void
each_spell(dealt &rows, const plan &s, Function f)
{
#pragma unroll 1
    for (bool more = true; more;) {
        __syncthreads();
        more = rows.from < rows.end;
        f();
        if (more) {
            ptx::cluster_arrive(); // other threads of the cluster may have these columns next
            ptx::cluster_wait();
            if (threadIdx.x == 0) {
                rows.next(s);
            }
        }
    }
}

} // namespace aicf::steady

#endif
