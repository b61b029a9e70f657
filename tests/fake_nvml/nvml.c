/* A stand-in for NVIDIA's libnvidia-ml.so.1, for tests.
 *
 * Its GPUs are what the file says that EC2SPAWNER_FAKE_NVML names. It is read by nvmlInit and by
 * each nvmlEventSetWait, that is once a sample. Each line of it is one of
 *
 *     init CODE                    nvmlInit fails with this
 *     driver CODE                  every other call does
 *     old                          a driver that knows the older names alone
 *     gpu INDEX KEY VALUE          see `set`; a GPU is there once it is named
 *     slice INDEX PLACE MIB USED   a MIG slice; its profile is `1g.5gb`
 *     process INDEX PID MIB SM     SM use in percent, or -1 where the driver does not tell
 *     xid SERIAL INDEX NUMBER      told of once for each serial, in their order
 *
 * Layouts are those of nvml.h of driver 580, which nvidia-ml-py declares too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7, TIMEOUT = 10, FUNCTION_NOT_FOUND = 13
};
enum { MOST_GPUS = 16, MOST_SLICES = 7, MOST_PROCESSES = 64, MOST_XIDS = 32 };

typedef unsigned long long u64;
typedef struct { u64 total, free, used; } memory_t;
typedef struct { unsigned gpu, memory; } use_t;
typedef struct { unsigned pid; u64 used; unsigned gpu_instance, compute_instance; } process_t;
typedef struct { unsigned pid; u64 at; unsigned sm, memory, encoder, decoder; } process_use_t;

typedef struct gpu gpu_t;
typedef struct { gpu_t *gpu; int place; u64 total, used; int is_there; } slice_t;
typedef struct { gpu_t *device; u64 type, data; unsigned gpu_instance, compute_instance; } event_t;
struct gpu {
    slice_t slices[MOST_SLICES]; /* handles of GPUs and of slices must not be the same */
    long is_there, lost, broken, use, memory, used, temperature, power, limit, sm_clock, mem_clock,
        max_clock, reasons, corrected, uncorrected, mig, listens, index;
    struct { unsigned pid; u64 mib; int sm; } processes[MOST_PROCESSES];
    int process_count;
};

static gpu_t gpus[MOST_GPUS];
static struct { long serial; int gpu; u64 number; } xids[MOST_XIDS];
static int xid_count, is_old, init_fails, driver_fails, is_open;
static long told_serial;
static u64 now_us = 1000000;

static void set(gpu_t *gpu, const char *key, long value)
{
    const struct { const char *name; long *field; } fields[] = {
        {"lost", &gpu->lost},           {"broken", &gpu->broken},     {"use", &gpu->use},
        {"memory", &gpu->memory},       {"used", &gpu->used},         {"power", &gpu->power},
        {"temperature", &gpu->temperature},                           {"limit", &gpu->limit},
        {"sm_clock", &gpu->sm_clock},   {"mem_clock", &gpu->mem_clock},
        {"max_clock", &gpu->max_clock}, {"reasons", &gpu->reasons},   {"mig", &gpu->mig},
        {"corrected", &gpu->corrected}, {"uncorrected", &gpu->uncorrected},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (!strcmp(fields[i].name, key)) *fields[i].field = value;
}

static gpu_t *named(int index)
{
    if (index < 0 || index >= MOST_GPUS) { fprintf(stderr, "fake NVML: GPU %d\n", index); abort(); }
    gpu_t *gpu = &gpus[index];
    if (!gpu->is_there) {
        gpu->is_there = 1;
        gpu->index = index;
        gpu->memory = 81920; gpu->temperature = 30; gpu->power = 60000; gpu->limit = 700000;
        gpu->sm_clock = 345; gpu->mem_clock = 2619; gpu->max_clock = 1980; gpu->reasons = 1;
    }
    return gpu;
}

static void read_state(void)
{
    const char *path = getenv("EC2SPAWNER_FAKE_NVML");
    static struct stat read;
    struct stat status;
    FILE *file;
    char line[256], key[32];
    long a, b, c, d;

    if (!path || stat(path, &status) || !(file = fopen(path, "r"))) return;
    if (read.st_ino == status.st_ino && read.st_mtim.tv_nsec == status.st_mtim.tv_nsec) {
        fclose(file);
        return;
    }
    read = status;
    for (int i = 0; i < MOST_GPUS; i++) {
        long listens = gpus[i].listens;
        memset(&gpus[i], 0, sizeof gpus[i]);
        gpus[i].listens = listens;
    }
    xid_count = is_old = init_fails = driver_fails = 0;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "init %ld", &a) == 1) init_fails = a;
        else if (sscanf(line, "driver %ld", &a) == 1) driver_fails = a;
        else if (!strncmp(line, "old", 3)) is_old = 1;
        else if (sscanf(line, "gpu %ld %31s %ld", &a, key, &b) == 3) set(named(a), key, b);
        else if (sscanf(line, "slice %ld %ld %ld %ld", &a, &b, &c, &d) == 4 && b < MOST_SLICES) {
            slice_t slice = {named(a), b, (u64)c << 20, (u64)d << 20, 1};
            gpus[a].slices[b] = slice;
        } else if (sscanf(line, "process %ld %ld %ld %ld", &a, &b, &c, &d) == 4) {
            gpu_t *gpu = named(a);
            if (gpu->process_count < MOST_PROCESSES) {
                gpu->processes[gpu->process_count].pid = b;
                gpu->processes[gpu->process_count].mib = c;
                gpu->processes[gpu->process_count++].sm = d;
            }
        } else if (sscanf(line, "xid %ld %ld %ld", &a, &b, &c) == 3 && xid_count < MOST_XIDS) {
            xids[xid_count].serial = a;
            xids[xid_count].gpu = b;
            xids[xid_count++].number = c;
        }
    }
    fclose(file);
}

static int failing(void *handle)
{
    if (!is_open) return UNINITIALIZED;
    if (driver_fails) return driver_fails;
    gpu_t *gpu = handle;
    if ((char *)handle < (char *)gpus || (char *)handle >= (char *)(gpus + MOST_GPUS))
        return INVALID_ARGUMENT;
    gpu = &gpus[((char *)handle - (char *)gpus) / sizeof *gpus];
    return gpu->lost ? 15 : gpu->broken;
}

/* The GPU's first slice lies where the GPU does, so a GPU's handle points behind its slices. */
static void *handle_of(gpu_t *gpu) { return &gpu->index; }
static gpu_t *gpu_of(void *handle)
{
    return &gpus[((char *)handle - (char *)gpus) / sizeof *gpus];
}
static slice_t *slice_of(void *handle)
{
    gpu_t *gpu = gpu_of(handle);
    return handle == handle_of(gpu) ? NULL : handle;
}

#define ASK(handle) do { int code = failing(handle); if (code) return code; } while (0)
#define OF_GPU(handle) do { ASK(handle); if (slice_of(handle)) return NOT_SUPPORTED; } while (0)

int nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    read_state();
    if (!init_fails) is_open++;
    return init_fails;
}
int nvmlShutdown(void) { if (is_open) is_open--; return SUCCESS; }
const char *nvmlErrorString(int code)
{
    static char text[40];
    snprintf(text, sizeof text, "fake error %d", code);
    return text;
}

/* A GPU that is lost at nvmlInit is still listed; one that the file no longer names is not. */
static gpu_t *at_position(unsigned position)
{
    for (int i = 0; i < MOST_GPUS; i++)
        if (gpus[i].is_there && !position--) return &gpus[i];
    return NULL;
}
int nvmlDeviceGetCount_v2(unsigned *count)
{
    if (!is_open) return UNINITIALIZED;
    for (*count = 0; at_position(*count); ++*count);
    return driver_fails;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned position, void **handle)
{
    gpu_t *gpu = at_position(position);
    if (!gpu) return INVALID_ARGUMENT;
    *handle = handle_of(gpu);
    ASK(*handle);
    return SUCCESS;
}

/* As the stand-in for CUDA's driver names them: 0000:00:1E.0 is the first. */
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **handle)
{
    unsigned device;
    if (sscanf(bus_id, "%*x:%*x:%x", &device) != 1 || device < 0x1e) return NOT_FOUND;
    return nvmlDeviceGetHandleByIndex_v2(device - 0x1e, handle);
}
/* jupyterlab-nvdashboard, which the bench `widget` runs beside us, asks for these at its import. */
int nvmlDeviceGetNvLinkVersion(void *handle, unsigned link, unsigned *version)
{
    (void)handle, (void)link, (void)version;
    return NOT_SUPPORTED;
}
int nvmlDeviceGetMaxPcieLinkGeneration(void *handle, unsigned *generation)
{
    (void)handle, (void)generation;
    return NOT_SUPPORTED;
}
int nvmlDeviceGetName(void *handle, char *name, unsigned length)
{
    ASK(handle);
    snprintf(name, length, slice_of(handle) ? "NVIDIA H100 80GB HBM3 MIG 1g.5gb"
                                            : "NVIDIA H100 80GB HBM3");
    return SUCCESS;
}
int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned length)
{
    ASK(handle);
    slice_t *slice = slice_of(handle);
    if (slice) snprintf(uuid, length, "MIG-%ld-%d", gpu_of(handle)->index, slice->place);
    else snprintf(uuid, length, "GPU-%ld", gpu_of(handle)->index);
    return SUCCESS;
}
int nvmlDeviceGetMemoryInfo(void *handle, memory_t *memory)
{
    ASK(handle);
    slice_t *slice = slice_of(handle);
    memory->total = slice ? slice->total : (u64)gpu_of(handle)->memory << 20;
    memory->used = slice ? slice->used : (u64)gpu_of(handle)->used << 20;
    memory->free = memory->total - memory->used;
    return SUCCESS;
}
int nvmlDeviceGetUtilizationRates(void *handle, use_t *use)
{
    OF_GPU(handle);
    if (gpu_of(handle)->mig) return NOT_SUPPORTED;
    use->gpu = gpu_of(handle)->use;
    use->memory = 0;
    return SUCCESS;
}

/* A figure of less than 0 is one that this GPU does not have. */
static int give(void *handle, long figure, unsigned *into)
{
    OF_GPU(handle);
    if (figure < 0) return NOT_SUPPORTED;
    *into = figure;
    return SUCCESS;
}
int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned *celsius)
{
    (void)sensor;
    return give(handle, gpu_of(handle)->temperature, celsius);
}
int nvmlDeviceGetPowerUsage(void *handle, unsigned *milliwatts)
{
    return give(handle, gpu_of(handle)->power, milliwatts);
}
int nvmlDeviceGetEnforcedPowerLimit(void *handle, unsigned *milliwatts)
{
    return give(handle, gpu_of(handle)->limit, milliwatts);
}
int nvmlDeviceGetClockInfo(void *handle, int clock, unsigned *mhz)
{
    return give(handle, clock == 1 ? gpu_of(handle)->sm_clock : gpu_of(handle)->mem_clock, mhz);
}
int nvmlDeviceGetMaxClockInfo(void *handle, int clock, unsigned *mhz)
{
    (void)clock;
    return give(handle, gpu_of(handle)->max_clock, mhz);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *handle, u64 *reasons)
{
    OF_GPU(handle);
    *reasons = gpu_of(handle)->reasons;
    return SUCCESS;
}
int nvmlDeviceGetCurrentClocksEventReasons(void *handle, u64 *reasons)
{
    return is_old ? FUNCTION_NOT_FOUND : nvmlDeviceGetCurrentClocksThrottleReasons(handle, reasons);
}
int nvmlDeviceGetTotalEccErrors(void *handle, int type, int counter, u64 *count)
{
    OF_GPU(handle);
    long errors = type == 0 ? gpu_of(handle)->corrected : gpu_of(handle)->uncorrected;
    if (counter != 0 || errors < 0) return NOT_SUPPORTED;
    *count = errors;
    return SUCCESS;
}

int nvmlDeviceGetMigMode(void *handle, unsigned *current, unsigned *pending)
{
    OF_GPU(handle);
    *current = *pending = gpu_of(handle)->mig;
    return SUCCESS;
}
int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *count)
{
    OF_GPU(handle);
    *count = MOST_SLICES;
    return SUCCESS;
}
int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned place, void **slice)
{
    OF_GPU(handle);
    if (place >= MOST_SLICES || !gpu_of(handle)->slices[place].is_there) return NOT_FOUND;
    *slice = &gpu_of(handle)->slices[place];
    return SUCCESS;
}

/* With slices, every process is on the first one. */
static int processes(void *handle, unsigned *count, process_t *found)
{
    ASK(handle);
    gpu_t *gpu = gpu_of(handle);
    slice_t *slice = slice_of(handle);
    unsigned there = slice && slice->place ? 0 : gpu->process_count;
    if (!there) { *count = 0; return SUCCESS; }
    if (!found || *count < there) { *count = there; return INSUFFICIENT_SIZE; }
    for (unsigned i = 0; i < there; i++) {
        process_t each = {gpu->processes[i].pid, gpu->processes[i].mib << 20, ~0u, ~0u};
        found[i] = each;
    }
    *count = there;
    return SUCCESS;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, process_t *found)
{
    return is_old ? FUNCTION_NOT_FOUND : processes(handle, count, found);
}
int nvmlDeviceGetComputeRunningProcesses_v2(void *handle, unsigned *count, process_t *found)
{
    return processes(handle, count, found);
}
int nvmlDeviceGetProcessUtilization(void *handle, process_use_t *found, unsigned *count, u64 since)
{
    OF_GPU(handle);
    gpu_t *gpu = gpu_of(handle);
    unsigned there = 0;
    if (gpu->mig) return NOT_SUPPORTED;
    now_us += 100000;
    for (int i = 0; i < gpu->process_count; i++) {
        if (gpu->processes[i].sm < 0) return NOT_SUPPORTED;
        if (!gpu->processes[i].sm || since >= now_us) continue;
        if (found && there < *count) {
            process_use_t each = {gpu->processes[i].pid, now_us, gpu->processes[i].sm, 0, 0, 0};
            found[there] = each;
        }
        there++;
    }
    if (!there) return NOT_FOUND;
    if (!found) { *count = there; return INSUFFICIENT_SIZE; }
    *count = there;
    return SUCCESS;
}

int nvmlEventSetCreate(void **set) { *set = &told_serial; return is_old ? NOT_SUPPORTED : SUCCESS; }
int nvmlEventSetFree(void *set)
{
    (void)set;
    for (int i = 0; i < MOST_GPUS; i++) gpus[i].listens = 0;
    return SUCCESS;
}
int nvmlDeviceRegisterEvents(void *handle, u64 types, void *set)
{
    (void)set;
    OF_GPU(handle);
    if (types != 8) return NOT_SUPPORTED;
    gpu_of(handle)->listens = 1;
    return SUCCESS;
}
int nvmlEventSetWait_v2(void *set, event_t *event, unsigned milliseconds)
{
    (void)set;
    (void)milliseconds;
    read_state();
    if (driver_fails) return driver_fails;
    for (int i = 0; i < xid_count; i++) {
        if (xids[i].serial <= told_serial || !gpus[xids[i].gpu].listens) continue;
        told_serial = xids[i].serial;
        memset(event, 0, sizeof *event);
        event->device = handle_of(&gpus[xids[i].gpu]);
        event->type = 8;
        event->data = xids[i].number;
        return SUCCESS;
    }
    return TIMEOUT;
}
