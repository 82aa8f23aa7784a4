/* The CUDA backend over SHIM: which calls it makes, in which order, on which device, and what is
   left behind after each. */
#define _GNU_SOURCE
#include "check.h"

#include <aicf/backend/cpu.h>
#include <aicf/backend/cuda.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel.h"
#include "rows.h"
#include "shim.h"

static const aicf_backend *const cuda = &aicf_backend_cuda;
static const aicf_device zero = {2, 0}, one = {2, 1};
static float data[4096];
static frame f;

static aicf_stream
stream_at(int number)
{
    return (aicf_stream)(uintptr_t)number;
}

/* The log's lines of calls that do something: no questions about the error or the device. */
static const char *
deeds(void)
{
    static char kept[8192];
    kept[0] = '\0';
    char *log = strdup(shim_log());
    for (char *line = strtok(log, "\n"); line; line = strtok(NULL, "\n")) {
        if (!strstr(line, "LastError") && strncmp(line, "cudaGetDevice ", 14)) {
            strcat(strcat(kept, line), "\n");
        }
    }
    free(log);
    return kept;
}

TEST(cuda_enter, "A4")
{
    int32_t previous;
    CHECK_INT(cuda->enter(zero, &previous).kind, AICF_OK);
    cuda->leave(previous);
    CHECK_INT(shim_count("cudaSetDevice"), 0);
    CHECK_INT(cuda->enter(one, &previous).kind, AICF_OK);
    CHECK_INT(shim_device(), 1);
    cuda->leave(previous);
    CHECK_INT(shim_device(), 0);
    CHECK_INT(shim_count("cudaSetDevice"), 2);
    CHECK_INT(cuda->enter((aicf_device){2, 7}, &previous).native, 101);
    CHECK_INT(shim_device(), 0);
    CHECK_INT(test_last_error(), 0);
    shim_fail("cudaGetDevice", 999, 1);
    CHECK_INT(cuda->enter(one, &previous).native, 999);
    CHECK_INT(test_last_error(), 0);
}

/* A caller's device without a context gets none from us, whatever fails. */
TEST(cuda_enter_starts_no_context, "A4")
{
    int32_t previous;
    void *memory;
    shim_start(2);
    CHECK_INT(cuda->enter(one, &previous).kind, AICF_OK);
    CHECK_INT(shim_device(), 1);
    CHECK_INT(test_count_up(data, 10, 1, NULL).kind, AICF_OK);
    cuda->leave(previous);
    CHECK_INT(shim_device(), 0);
    CHECK_INT(cuda->allocate(one, NULL, 8, &memory).kind, AICF_OK);
    CHECK_INT(cuda->release(one, NULL, memory).kind, AICF_OK);
    CHECK_INT(shim_device(), 0);
    CHECK_INT(shim_count("cudaSetDevice"), 0);
    CHECK_INT(shim_started(), 2);
    /* One hold of ours, however often. */
    CHECK_INT(shim_count("cuDevicePrimaryCtxRetain"), 3);
    CHECK_INT(shim_count("cuDevicePrimaryCtxRelease"), 2);

    static const char *const steps[] = {
        "cuDeviceGet", "cuDevicePrimaryCtxGetState", "cuDevicePrimaryCtxRetain",
        "cuCtxPushCurrent"};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        shim_fail(steps[i], 1, 1);
        CHECK_INT(cuda->enter(one, &previous).kind, AICF_OK);
        CHECK_INT(shim_device(), 1);
        cuda->leave(previous);
        CHECK_INT(shim_device(), 0);
        CHECK_INT(shim_count("cudaSetDevice"), 2 * ((int)i + 1));
        shim_start(2);
    }
    CHECK_INT(cuda->enter((aicf_device){2, 7}, &previous).native, 101);
    CHECK_INT(shim_device(), 0);
}

/* Memory, waiting and synchronising happen on the device that they are for; the caller's comes
   back, also after a failure. */
TEST(cuda_memory, "A4 S4")
{
    void *memory;
    CHECK_INT(cuda->allocate(one, stream_at(64), 100, &memory).kind, AICF_OK);
    CHECK(memory);
    CHECK_TEXT(deeds(), "cudaMallocAsync bytes=100 stream=0x40");
    CHECK_TEXT(deeds(), "device=1 error=0");
    CHECK_INT(shim_device(), 0);
    CHECK_INT(shim_live(), 1);
    CHECK_INT(cuda->release(one, stream_at(64), memory).kind, AICF_OK);
    CHECK_INT(shim_live(), 0);
    CHECK_INT(cuda->allocate(one, NULL, 0, &memory).kind, AICF_OK);
    CHECK(!memory);
    CHECK_INT(cuda->release(one, NULL, NULL).kind, AICF_OK);
    CHECK_INT(cuda->allocate(one, NULL, -1, &memory).native, 1);
    shim_fail("cudaMallocAsync", 2, 1);
    CHECK_INT(cuda->allocate(one, NULL, 100, &memory).native, 2);
    CHECK(!memory);
    CHECK_INT(shim_device(), 0);
    CHECK_INT(test_last_error(), 0);
}

TEST(cuda_wait, "S4")
{
    CHECK_INT(cuda->wait(one, stream_at(64), stream_at(64)).kind, AICF_OK);
    CHECK_INT(strlen(shim_log()), 0);
    CHECK_INT(cuda->wait(one, stream_at(64), stream_at(80)).kind, AICF_OK);
    const char *text = deeds();
    const char *record = strstr(text, "cudaEventRecord"),
               *wait = strstr(text, "cudaStreamWaitEvent");
    CHECK(record && wait && record < wait);
    CHECK_TEXT(record, "stream=0x50 device=1");
    CHECK_TEXT(wait, "cudaStreamWaitEvent stream=0x40");
    CHECK_INT(shim_count("cudaEventDestroy"), 1);
    CHECK_INT(shim_count("cudaStreamSynchronize"), 0);
    CHECK_INT(shim_device(), 0);
    shim_fail("cudaStreamWaitEvent", 400, 1);
    CHECK_INT(cuda->wait(zero, stream_at(64), NULL).native, 400);
    CHECK_INT(shim_count("cudaEventDestroy"), 2);
    CHECK_INT(cuda->synchronize(one, stream_at(64)).kind, AICF_OK);
    CHECK_INT(shim_count("cudaStreamSynchronize"), 1);
}

/* An error that somebody left is neither swallowed nor reported as ours. */
TEST(cuda_foreign_errors, "C3")
{
    int32_t previous;
    void *memory;
    test_leave_error();
    CHECK_INT(test_last_error(), 1);
    CHECK_INT(cuda->enter(one, &previous).kind, AICF_OK);
    CHECK_INT(test_count_up(data, 10, 1, NULL).kind, AICF_OK);
    cuda->leave(previous);
    CHECK_INT(cuda->allocate(one, NULL, 8, &memory).kind, AICF_OK);
    CHECK_INT(cuda->synchronize(one, NULL).kind, AICF_OK);
    CHECK(!cuda->unusable());
    CHECK_INT(cuda->arch(one), 90);
    CHECK_INT(test_last_error(), 1);
    /* Ours took its place: something still stands there. */
    shim_fail("cudaMallocAsync", 2, 1);
    CHECK_INT(cuda->allocate(one, NULL, 8, &memory).native, 2);
    CHECK(test_last_error());
    char text[768];
    cuda->error_text(2, text, sizeof text);
    CHECK_TEXT(text, "Before the call cudaErrorInvalidValue (1) stood on this thread");
    /* A text that is about something else says nothing of it. */
    cuda->error_text(1, text, sizeof text);
    CHECK(!strstr(text, "stood"));
}

TEST(cuda_arch, "B19")
{
    for (int i = 0; i < 5; i++) {
        CHECK_INT(cuda->arch(one), 90);
    }
    CHECK_INT(shim_count("cudaDeviceGetAttribute"), 2);
    CHECK_INT(cuda->arch((aicf_device){2, 9}), -1);
    CHECK_INT(cuda->arch((aicf_device){2, -1}), -1);
    CHECK_INT(cuda->arch((aicf_device){2, 1000}), -1);
    CHECK_INT(test_last_error(), 0);
    shim_arch(103);
    CHECK_INT(cuda->arch(zero), 103);
}

/* Not known yet is no answer: once the driver is there, the arch is. */
TEST(cuda_arch_is_asked_again, "C8")
{
    shim_driver(0);
    CHECK_INT(cuda->arch(zero), -1);
    shim_driver(13000);
    CHECK_INT(cuda->arch(zero), 90);
}

TEST(cuda_unusable, "C8 I2")
{
    CHECK(!cuda->unusable());
    shim_driver(0);
    CHECK_TEXT(cuda->unusable(), "No CUDA driver");
    shim_driver(12040);
    CHECK_TEXT(cuda->unusable(), "The driver is for CUDA 12.4, this build needs ");
    shim_driver(13000);
    shim_devices(0);
    CHECK_TEXT(cuda->unusable(), "CUDA_VISIBLE_DEVICES");
    shim_devices(1);
    static const struct {
        int error;
        const char *words;
    } others[] = {{3, "could not start"},      {800, "/dev/nvidia"},    {802, "fabricmanager"},
                  {803, "different versions"}, {804, "forward-compat"}, {999, "did not start"}};
    for (int i = 0; i < 6; i++) {
        shim_fail("cudaGetDeviceCount", others[i].error, 1);
        const char *text = cuda->unusable();
        CHECK(text);
        CHECK_TEXT(text, others[i].words);
        CHECK_INT(test_last_error(), 0);
    }
    CHECK(!cuda->unusable()); /* nothing of it was kept */
}

TEST(cuda_error_texts, "C3 C5 C7")
{
    char text[400];
    static const int sticky[] = {214, 220, 700, 702, 710, 714, 715, 716, 717, 718, 719};
    for (size_t i = 0; i < sizeof sticky / sizeof *sticky; i++) {
        cuda->error_text(sticky[i], text, sizeof text);
        CHECK_TEXT(text, "restart the process");
    }
    cuda->error_text(209, text, sizeof text);
    CHECK_TEXT(text, "cudaErrorNoKernelImageForDevice (209): ");
    CHECK_TEXT(text, "CUDA_ARCHS");
    shim_driver(12080);
    cuda->error_text(222, text, sizeof text);
    CHECK_TEXT(text, "The driver is for CUDA 12.8, the PTX of the kernel is from ");
    cuda->error_text(123456, text, sizeof text);
    CHECK_TEXT(text, "(123456)");
    for (size_t size = 1; size < 100; size++) {
        memset(text, 'x', sizeof text);
        cuda->error_text(700, text, size);
        CHECK(memchr(text, '\0', size));
        CHECK(text[size] == 'x');
    }
}

/* ---- launches ------------------------------------------------------------------------------- */

static aicf_status
launch_count_up(const aicf_call *call)
{
    const aicf_view *v = aicf_call_views(call);
    return test_count_up(v[2].data, ((const row_call *)call)->dims[0], 1, call->stream);
}

static void
built(void)
{
}

static const aicf_entry entries[] = {{launch_count_up, built}, {NULL, NULL}, {NULL, NULL}};
static aicf_kernel kernels[6];
static aicf_op_backend backends[2];
static aicf_op op;

/* add, on CUDA, with a kernel that is launched. */
static aicf_status
prepare_on(int device, int64_t count)
{
    op = add_row;
    memcpy(kernels, add_row.kernels, sizeof kernels);
    memcpy(backends, add_row.backends, sizeof backends);
    kernels[2].entries = entries;
    backends[0].backend = cuda;
    backends[0].first = 2;
    op.kernels = kernels;
    op.backends = backends;
    op.code = "sm_80 sm_90 compute_90";
    frame_begin(&f, &op);
    f.call.head.stream = stream_at(64);
    for (int i = 0; i < 3; i++) {
        f.t[i] = tensor_of(AICF_F32, data + 1000 * i, 1, &count, NULL);
        f.t[i].device = (aicf_device){2, device};
    }
    return frame_prepare(&f, 3);
}

TEST(cuda_launch, "A4 S1 S8")
{
    CHECK_INT(prepare_on(1, 1000).kind, AICF_OK);
    CHECK_INT(strlen(shim_log()), 0); /* prepare asks CUDA nothing, without archs */
    shim_capture(true);
    CHECK_INT(aicf_call_launch(&f.call.head).kind, AICF_OK);
    CHECK_TEXT(deeds(), "count_up");
    CHECK_TEXT(deeds(), "grid=4,1,1 block=256,1,1 smem=0 stream=0x40 device=1 error=0");
    CHECK_INT(shim_count("cudaLaunchKernel"), 1);
    CHECK_INT(shim_device(), 0);
    CHECK_INT(shim_count("cudaSetDevice"), 2);
}

TEST(cuda_launch_of_nothing, "C1")
{
    CHECK_INT(prepare_on(0, 0).kind, AICF_OK);
    CHECK_INT(aicf_call_launch(&f.call.head).kind, AICF_OK);
    CHECK_INT(strlen(shim_log()), 0);
}

TEST(cuda_launch_errors, "C3 A4")
{
    static const int codes[] = {1, 2, 9, 98, 209, 700, 701, 719, 900};
    CHECK_INT(prepare_on(1, 1000).kind, AICF_OK);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        shim_fail("cudaLaunchKernel", codes[i], 1);
        aicf_status status = aicf_call_launch(&f.call.head);
        CHECK_INT(status.kind, AICF_BACKEND_ERROR);
        CHECK_INT(status.native, codes[i]);
        CHECK_INT(status.backend, 0);
        CHECK_INT(shim_device(), 0);
        CHECK_INT(test_last_error(), 0);
        const char *text = frame_text(&f, status);
        CHECK_TEXT(text, "add: kernel vec failed: cudaError");
        CHECK_TEXT(text, "Launched with grid (4, 1, 1), block (256, 1, 1) and 0 bytes of dynamic");
        CHECK_TEXT(text, " (on cuda:1, code for sm_80 sm_90 compute_90)");
    }
    CHECK_INT(aicf_call_launch(&f.call.head).kind, AICF_OK);
    shim_fail("cudaSetDevice", 46, 1);
    CHECK_INT(aicf_call_launch(&f.call.head).native, 46);
    CHECK_INT(shim_count("cudaLaunchKernel"), (int)(sizeof codes / sizeof *codes) + 1);
}

/* ---- launches once more ---------------------------------------------------------------------- */

/* What the launcher below does beside one launch. */
static enum { ALONE, TWICE, COPIES, ASKS_WHAT_STAYS, ASKS_THE_STREAM } deed;

static aicf_status
launch_and(const aicf_call *call)
{
    static int left;
    aicf_status status = test_count_up(data, 1000, 1, call->stream);
    switch (deed) {
    case ALONE: break;
    case TWICE: return test_count_up(data, 10, 1, call->stream);
    case COPIES: test_copy(data, data + 8, 4); break;
    case ASKS_WHAT_STAYS: left += test_get_device(); break;
    case ASKS_THE_STREAM: left += test_is_captured(call->stream); break;
    }
    return status;
}

/* What is kept of the call's launch, once the kernel's function is known. */
static aicf_repeat *
learn_with(int what)
{
    aicf_repeat *repeat = NULL;
    deed = what;
    f.call.head.launch = launch_and;
    for (int i = 0; i < 3; i++) {
        CHECK_INT(cuda->launch(&f.call.head).kind, AICF_OK);
    }
    CHECK_INT(aicf_repeats_of(cuda)->learn(&f.call.head, &repeat).kind, AICF_OK);
    return repeat;
}

/* Kept is the launch of a launcher that does nothing else that could be other the next time. */
TEST(cuda_repeat_what, "DESIGN-5-launch")
{
    const aicf_repeats *repeats = aicf_repeats_of(cuda);
    CHECK_INT(prepare_on(0, 1000).kind, AICF_OK);
    CHECK(!aicf_repeats_of(&aicf_backend_cpu));
    for (int what = ALONE; what <= ASKS_THE_STREAM; what++) {
        aicf_repeat *repeat = learn_with(what);
        CHECK_INT(repeat != NULL, what == ALONE || what == ASKS_WHAT_STAYS);
        repeats->destroy(repeat);
    }
    shim_fail("cuLaunchKernel", 1, 1); /* the runtime's is not kept */
    aicf_repeat *repeat = NULL;
    deed = ALONE;
    CHECK_INT(repeats->learn(&f.call.head, &repeat).kind, AICF_OK);
    CHECK(!repeat);
}

TEST(cuda_repeat, "DESIGN-5-launch")
{
    const aicf_repeats *repeats = aicf_repeats_of(cuda);
    CHECK_INT(prepare_on(0, 1000).kind, AICF_OK);
    aicf_repeat *repeat = learn_with(ALONE);
    uint64_t place = 0;
    const int asked = shim_count("cuCtxGetId"), before = shim_count("cudaLaunchKernel");
    CHECK(repeats->launch(repeat, stream_at(72), &place));
    CHECK_TEXT(shim_log(), "grid=4,1,1 block=256,1,1 smem=0 stream=0x48 by=driver as=function");
    CHECK(repeats->launch(repeat, stream_at(80), &place));
    CHECK_INT(shim_count("cuCtxGetId"), asked + 1); /* the second found what the first left */
    CHECK_INT(shim_count("cudaLaunchKernel"), before + 2);

    /* In no other context, nor where all goes by the runtime; but when those are gone, again. */
    place = 0;
    int32_t previous;
    CHECK_INT(cuda->enter(one, &previous).kind, AICF_OK);
    CHECK(!repeats->launch(repeat, stream_at(64), &place));
    cuda->leave(previous);
    CHECK(repeats->launch(repeat, stream_at(64), &place));
    aicf_cuda_use_driver(false);
    CHECK(!repeats->launch(repeat, stream_at(64), &place));
    aicf_cuda_use_driver(true);
    CHECK_INT(cuda->launch(&f.call.head).kind, AICF_OK); /* counts from the next call on */
    CHECK(repeats->launch(repeat, stream_at(64), &place));
    CHECK_INT(shim_count("cudaLaunchKernel"), before + 5);

    /* What the driver refused once is left to the launcher for good. */
    shim_fail("cuLaunchKernel", 1, 1);
    CHECK(!repeats->launch(repeat, stream_at(64), &place));
    CHECK(!repeats->launch(repeat, stream_at(64), &place));
    CHECK_INT(test_last_error(), 0);
    repeats->destroy(repeat);

    repeat = learn_with(ALONE);
    shim_renew();
    place = 0;
    CHECK(!repeats->launch(repeat, stream_at(64), &place));
    repeats->destroy(repeat);
    repeats->destroy(NULL);
}

/* The configuration is told of the launch that failed, and of nothing else. */
TEST(cuda_launch_is_told_once, "C3")
{
    void *memory;
    CHECK_INT(prepare_on(1, 1000).kind, AICF_OK);
    shim_fail("cudaLaunchKernel", 9, 1);
    aicf_status status = aicf_call_launch(&f.call.head);
    /* Giving the workspace back does not hide it, even where that fails too. */
    CHECK_INT(cuda->allocate(one, NULL, 8, &memory).kind, AICF_OK);
    shim_fail("cudaLaunchKernel", 9, 1);
    status = aicf_call_launch(&f.call.head);
    shim_fail("cudaFreeAsync", 2, 1);
    CHECK_INT(cuda->release(one, NULL, memory).native, 2);
    CHECK_TEXT(frame_text(&f, status), "Launched with grid (4, 1, 1)");
    CHECK(!strstr(frame_text(&f, (aicf_status){AICF_BACKEND_ERROR, 0, 0, 0, 2}), "Launched"));
    shim_fail("cudaMallocAsync", 9, 1);
    status = cuda->allocate(one, NULL, 8, &memory);
    CHECK(!strstr(frame_text(&f, status), "Launched"));
    shim_fail("cudaLaunchKernel", 9, 1);
    CHECK_INT(aicf_call_launch(&f.call.head).native, 9);
    CHECK_INT(aicf_call_launch(&f.call.head).kind, AICF_OK);
    status = (aicf_status){AICF_BACKEND_ERROR, 0, 0, 0, 9};
    CHECK(!strstr(frame_text(&f, status), "Launched"));
}

/* SHIM refuses the grids that a GPU refuses. */
TEST(cuda_grids, "C4 C1")
{
    CHECK_INT(test_count_up(data, 256, 65535, NULL).kind, AICF_OK);
    CHECK_INT(test_count_up(data, 256, 65536, NULL).native, 1);
    CHECK_INT(test_count_up(data, 0, 1, NULL).native, 1);
    CHECK_INT(test_count_up(data, (INT64_C(1) << 31) * 256 - 256, 1, NULL).kind, AICF_OK);
}

TEST(cuda_sticky, "C5")
{
    CHECK_INT(prepare_on(1, 1000).kind, AICF_OK);
    shim_break(700);
    for (int i = 0; i < 3; i++) {
        aicf_status status = aicf_call_launch(&f.call.head);
        CHECK_INT(status.native, 700);
        CHECK_TEXT(frame_text(&f, status), "restart the process");
    }
}

/* A child of a process that used CUDA is told so, and calls nothing; one of a process that did not
   may use it. */
TEST(cuda_fork, "S9 I6")
{
    int32_t previous;
    void *memory;
    for (int used = 0; used < 2; used++) {
        pid_t child = fork();
        if (child == 0) {
            shim_reset();
            char text[400];
            aicf_status status = cuda->enter(one, &previous);
            if (!used) {
                _Exit(status.kind ? 1 : 0);
            }
            cuda->error_text(status.native, text, sizeof text);
            bool quiet = !cuda->allocate(one, NULL, 8, &memory).kind ||
                         shim_count("cudaMallocAsync") + shim_count("cudaGetDevice") +
                                 shim_count("cudaSetDevice") + shim_count("cudaGetLastError") ==
                             0;
            bool told =
                status.native == 3 && strstr(text, "spawn") && strstr(cuda->unusable(), "spawn");
            _Exit(quiet && told && cuda->arch(zero) == -1 ? 0 : 1);
        }
        int status;
        waitpid(child, &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        CHECK_INT(cuda->enter(one, &previous).kind, AICF_OK);
        cuda->leave(previous);
    }
}
