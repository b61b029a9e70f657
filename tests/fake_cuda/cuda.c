/* A stand-in for NVIDIA's libcuda.so.1, for tests. Steered by the environment:
 *
 *     FAKE_CUDA_GPUS         how many GPUs there are (1)
 *     FAKE_CUDA_NAME         of each (Tesla T4)
 *     FAKE_CUDA_MEMORY_MIB   of each (15360)
 *     FAKE_CUDA_FREE_MIB     of that, what is free (160)
 *     FAKE_CUDA_TO_GPU       GB/s, and so are the next two (12.2)
 *     FAKE_CUDA_FROM_GPU     (12.9)
 *     FAKE_CUDA_MEMORY       read and written (250)
 *     FAKE_CUDA_SLOW_GPU     this one copies at a tenth of that (none)
 *     FAKE_CUDA_FLIP         this GPU turns a bit of what is copied inside of it (none)
 *     FAKE_CUDA_FAIL         CALL:CODE, that call answers that error; CALL:CODE:N from the Nth on
 *     FAKE_CUDA_HANG         this call does not come back
 *     FAKE_CUDA_LEFT         a file that is written at the process's end: what was not given back
 *
 * Its clock is its own: a copy takes as long as its size and speed say, and no time passes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int result;
typedef unsigned long long address;
enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_DEVICE = 101,
       INVALID_CONTEXT = 201 };
enum { MOST_GPUS = 16 };

static int current = -1, contexts[MOST_GPUS], calls_to_failing, left, is_open;
static size_t used;
static double now_ms;

static double number(const char *name, double otherwise)
{
    const char *text = getenv(name);
    return text && *text ? atof(text) : otherwise;
}

static int gpus(void) { return (int)number("FAKE_CUDA_GPUS", 1); }

/* What this call is told to answer. */
static result said(const char *call)
{
    const char *hang = getenv("FAKE_CUDA_HANG"), *fail = getenv("FAKE_CUDA_FAIL");
    char failing[64];
    int code, nth = 1;
    if (hang && !strcmp(hang, call)) for (;;) pause();
    if (fail && sscanf(fail, "%63[^:]:%d:%d", failing, &code, &nth) >= 2 && !strcmp(failing, call))
        if (++calls_to_failing >= nth) return code; /* and from then on */
    if (!is_open && strcmp(call, "cuInit")) return 3; /* CUDA_ERROR_NOT_INITIALIZED */
    return SUCCESS;
}
#define ASK(call) do { result code = said(call); if (code) return code; } while (0)
#define IN_CONTEXT(call) do { ASK(call); if (current < 0) return INVALID_CONTEXT; } while (0)

static void tell_left(void)
{
    const char *path = getenv("FAKE_CUDA_LEFT");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file) return;
    for (int i = 0; i < MOST_GPUS; i++) left += contexts[i];
    fprintf(file, "%d\n", left);
    fclose(file);
}

static void take(double gb_per_s, size_t size)
{
    if (current == (int)number("FAKE_CUDA_SLOW_GPU", -1)) gb_per_s /= 10;
    now_ms += (double)size / gb_per_s / 1e6;
}

result cuInit(unsigned flags)
{
    (void)flags;
    ASK("cuInit");
    if (gpus() == 0) return NO_DEVICE;
    if (!is_open++) atexit(tell_left);
    return SUCCESS;
}

result cuGetErrorName(result code, const char **name)
{
    static const struct { result code; const char *name; } names[] = {
        {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"}, {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
        {NO_DEVICE, "CUDA_ERROR_NO_DEVICE"}, {214, "CUDA_ERROR_ECC_UNCORRECTABLE"},
        {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"}, {719, "CUDA_ERROR_LAUNCH_FAILED"},
        {802, "CUDA_ERROR_SYSTEM_NOT_READY"}, {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].code == code) { *name = names[i].name; return SUCCESS; }
    *name = NULL;
    return INVALID_VALUE;
}

result cuDeviceGetCount(int *count)
{
    ASK("cuDeviceGetCount");
    *count = gpus();
    return SUCCESS;
}

result cuDeviceGet(int *device, int index)
{
    ASK("cuDeviceGet");
    if (index < 0 || index >= gpus()) return INVALID_DEVICE;
    *device = index;
    return SUCCESS;
}

result cuDeviceGetName(char *name, int size, int device)
{
    (void)device;
    ASK("cuDeviceGetName");
    const char *given = getenv("FAKE_CUDA_NAME");
    snprintf(name, (size_t)size, "%s", given ? given : "Tesla T4");
    return SUCCESS;
}

result cuDeviceGetPCIBusId(char *bus_id, int size, int device)
{
    ASK("cuDeviceGetPCIBusId");
    snprintf(bus_id, (size_t)size, "0000:00:%02X.0", 0x1e + device);
    return SUCCESS;
}

result cuDeviceTotalMem_v2(size_t *size, int device)
{
    (void)device;
    ASK("cuDeviceTotalMem_v2");
    *size = (size_t)number("FAKE_CUDA_MEMORY_MIB", 15360) << 20;
    return SUCCESS;
}

result cuDevicePrimaryCtxRetain(void **context, int device)
{
    ASK("cuDevicePrimaryCtxRetain");
    contexts[device]++;
    *context = &contexts[device];
    return SUCCESS;
}

result cuDevicePrimaryCtxRelease_v2(int device)
{
    ASK("cuDevicePrimaryCtxRelease_v2");
    contexts[device]--;
    return SUCCESS;
}

result cuCtxSetCurrent(void *context)
{
    ASK("cuCtxSetCurrent");
    current = context ? (int)((int *)context - contexts) : -1;
    return SUCCESS;
}

result cuCtxSynchronize(void) { IN_CONTEXT("cuCtxSynchronize"); return SUCCESS; }

result cuMemGetInfo_v2(size_t *free_size, size_t *total)
{
    IN_CONTEXT("cuMemGetInfo_v2");
    *free_size = ((size_t)number("FAKE_CUDA_FREE_MIB", 160) << 20) - used;
    *total = (size_t)number("FAKE_CUDA_MEMORY_MIB", 15360) << 20;
    return SUCCESS;
}

/* Each piece of the device's memory knows its size. */
result cuMemAlloc_v2(address *at, size_t size)
{
    IN_CONTEXT("cuMemAlloc_v2");
    if (used + size > (size_t)number("FAKE_CUDA_FREE_MIB", 160) << 20) return OUT_OF_MEMORY;
    size_t *piece = malloc(size + 64);
    if (!piece) return OUT_OF_MEMORY;
    *piece = size;
    used += size;
    left++;
    *at = (address)(size_t)((char *)piece + 64);
    return SUCCESS;
}

result cuMemFree_v2(address at)
{
    IN_CONTEXT("cuMemFree_v2");
    size_t *piece = (size_t *)((char *)(size_t)at - 64);
    used -= *piece;
    left--;
    free(piece);
    return SUCCESS;
}

result cuMemAllocHost_v2(void **at, size_t size)
{
    IN_CONTEXT("cuMemAllocHost_v2");
    left++;
    return (*at = malloc(size)) ? SUCCESS : OUT_OF_MEMORY;
}

result cuMemFreeHost(void *at)
{
    IN_CONTEXT("cuMemFreeHost");
    left--;
    free(at);
    return SUCCESS;
}

result cuMemcpyHtoD_v2(address to, const void *from, size_t size)
{
    IN_CONTEXT("cuMemcpyHtoD_v2");
    memcpy((void *)(size_t)to, from, size);
    take(number("FAKE_CUDA_TO_GPU", 12.2), size);
    return SUCCESS;
}

result cuMemcpyDtoH_v2(void *to, address from, size_t size)
{
    IN_CONTEXT("cuMemcpyDtoH_v2");
    memcpy(to, (const void *)(size_t)from, size);
    take(number("FAKE_CUDA_FROM_GPU", 12.9), size);
    return SUCCESS;
}

result cuMemcpyDtoD_v2(address to, address from, size_t size)
{
    IN_CONTEXT("cuMemcpyDtoD_v2");
    memcpy((void *)(size_t)to, (const void *)(size_t)from, size);
    if (current == (int)number("FAKE_CUDA_FLIP", -1)) ((char *)(size_t)to)[size / 2] ^= 4;
    take(number("FAKE_CUDA_MEMORY", 250), 2 * size);
    return SUCCESS;
}

result cuEventCreate(void **event, unsigned flags)
{
    (void)flags;
    IN_CONTEXT("cuEventCreate");
    left++;
    return (*event = calloc(1, sizeof(double))) ? SUCCESS : OUT_OF_MEMORY;
}

result cuEventDestroy_v2(void *event)
{
    IN_CONTEXT("cuEventDestroy_v2");
    left--;
    free(event);
    return SUCCESS;
}

result cuEventRecord(void *event, void *stream)
{
    (void)stream;
    IN_CONTEXT("cuEventRecord");
    *(double *)event = now_ms;
    return SUCCESS;
}

result cuEventSynchronize(void *event) { (void)event; IN_CONTEXT("cuEventSynchronize"); return SUCCESS; }

result cuEventElapsedTime(float *ms, void *start, void *end)
{
    IN_CONTEXT("cuEventElapsedTime");
    *ms = (float)(*(double *)end - *(double *)start);
    return SUCCESS;
}
