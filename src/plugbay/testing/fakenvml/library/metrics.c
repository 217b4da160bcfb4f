/* The load and the state of a GPU: memory, processes, utilisation, temperature, power, clocks and errors. */
#include "fake.h"

#include <string.h>

struct memory {
    uint64_t total, free, used;
};

struct memory_v2 {
    uint32_t version;
    uint64_t total, reserved, free, used;
};

API result nvmlDeviceGetMemoryInfo(void *device, struct memory *memory) {
    DEVICE_CALL("nvmlDeviceGetMemoryInfo")
    if (!memory)
        return leave(INVALID_ARGUMENT);
    memory->total = subject == gpu ? (uint64_t)json_number(gpu, "memory_bytes", 0)
                                   : (uint64_t)json_number(subject, "memory_mib", 0) << 20;
    memory->used = (uint64_t)json_number(subject, "memory_used_bytes", 0);
    memory->free = memory->used < memory->total ? memory->total - memory->used : 0;
    return leave(SUCCESS);
}

API result nvmlDeviceGetMemoryInfo_v2(void *device, struct memory_v2 *memory) {
    struct memory plain;
    if (memory && (memory->version & 0xFFFFFF) != sizeof *memory && memory->version != 2)
        return ARGUMENT_VERSION_MISMATCH;
    result answer = nvmlDeviceGetMemoryInfo(device, memory ? &plain : NULL);
    if (!answer) {
        memory->total = plain.total;
        memory->reserved = 0;
        memory->free = plain.free;
        memory->used = plain.used;
    }
    return answer;
}

API result nvmlDeviceGetBAR1MemoryInfo(void *device, struct memory *memory) {
    GPU_CALL("nvmlDeviceGetBAR1MemoryInfo")
    if (!memory)
        return leave(INVALID_ARGUMENT);
    if (!json_has(gpu, "bar1_bytes"))
        return leave(NOT_SUPPORTED);
    memory->total = memory->free = (uint64_t)json_number(gpu, "bar1_bytes", 0);
    memory->used = 0;
    return leave(SUCCESS);
}

struct utilization {
    unsigned gpu, memory;
};

API result nvmlDeviceGetUtilizationRates(void *device, struct utilization *rates) {
    GPU_CALL("nvmlDeviceGetUtilizationRates")
    if (!rates)
        return leave(INVALID_ARGUMENT);
    if (json_is_true(json_get(gpu, "mig"), "enabled"))
        return leave(NOT_SUPPORTED);
    result answer = number_of(gpu, "utilization_percent", &rates->gpu);
    return leave(answer ? answer : number_of(gpu, "memory_utilization_percent", &rates->memory));
}

static result sampled(const char *function, void *device, const char *key, unsigned *percent, unsigned *period_us) {
    GPU_CALL(function)
    if (!period_us)
        return leave(INVALID_ARGUMENT);
    *period_us = 167000;
    return leave(number_of(gpu, key, percent));
}

API result nvmlDeviceGetEncoderUtilization(void *device, unsigned *percent, unsigned *period_us) {
    return sampled("nvmlDeviceGetEncoderUtilization", device, "encoder_percent", percent, period_us);
}

API result nvmlDeviceGetDecoderUtilization(void *device, unsigned *percent, unsigned *period_us) {
    return sampled("nvmlDeviceGetDecoderUtilization", device, "decoder_percent", percent, period_us);
}

#define PLAIN_NUMBER(name, key)                                                                                        \
    API result name(void *device, unsigned *to) {                                                                      \
        GPU_CALL(#name)                                                                                                \
        return leave(number_of(gpu, key, to));                                                                         \
    }

PLAIN_NUMBER(nvmlDeviceGetPowerUsage, "power_mw")
PLAIN_NUMBER(nvmlDeviceGetPowerManagementLimit, "power_limit_mw")
PLAIN_NUMBER(nvmlDeviceGetEnforcedPowerLimit, "power_limit_mw")
PLAIN_NUMBER(nvmlDeviceGetFanSpeed, "fan_percent")
PLAIN_NUMBER(nvmlDeviceGetPerformanceState, "performance_state")
PLAIN_NUMBER(nvmlDeviceGetPersistenceMode, "persistence_mode")
PLAIN_NUMBER(nvmlDeviceGetComputeMode, "compute_mode")
PLAIN_NUMBER(nvmlDeviceGetDisplayActive, "display_active")
PLAIN_NUMBER(nvmlDeviceGetDisplayMode, "display_mode")
PLAIN_NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, "retired_pages_pending")
PLAIN_NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, "pcie_generation")
PLAIN_NUMBER(nvmlDeviceGetCurrPcieLinkWidth, "pcie_width")
PLAIN_NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, "pcie_generation")
PLAIN_NUMBER(nvmlDeviceGetMaxPcieLinkWidth, "pcie_width")
PLAIN_NUMBER(nvmlDeviceGetNumGpuCores, "cores")

API result nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules) {
    GPU_CALL("nvmlDeviceGetTotalEnergyConsumption")
    return leave(bytes_of(gpu, "energy_mj", millijoules));
}

API result nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons) {
    GPU_CALL("nvmlDeviceGetCurrentClocksThrottleReasons")
    return leave(bytes_of(gpu, "throttle_reasons", reasons));
}

API result nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *reasons) {
    return nvmlDeviceGetCurrentClocksThrottleReasons(device, reasons);
}

API result nvmlDeviceGetTemperature(void *device, unsigned sensor, unsigned *celsius) {
    GPU_CALL("nvmlDeviceGetTemperature")
    return leave(sensor ? INVALID_ARGUMENT : number_of(gpu, "temperature_c", celsius));
}

API result nvmlDeviceGetTemperatureThreshold(void *device, unsigned threshold, unsigned *celsius) {
    GPU_CALL("nvmlDeviceGetTemperatureThreshold")
    return leave(number_of(gpu, threshold ? "slowdown_c" : "shutdown_c", celsius));
}

API result nvmlDeviceGetClockInfo(void *device, unsigned type, unsigned *mhz) {
    static const char *const keys[] = {"graphics_clock_mhz", "sm_clock_mhz", "memory_clock_mhz", "video_clock_mhz"};
    GPU_CALL("nvmlDeviceGetClockInfo")
    return leave(type < 4 ? number_of(gpu, keys[type], mhz) : INVALID_ARGUMENT);
}

API result nvmlDeviceGetMaxClockInfo(void *device, unsigned type, unsigned *mhz) {
    return nvmlDeviceGetClockInfo(device, type, mhz);
}

API result nvmlDeviceGetPcieThroughput(void *device, unsigned counter, unsigned *kib_per_s) {
    GPU_CALL("nvmlDeviceGetPcieThroughput")
    return leave(number_of(gpu, counter ? "pcie_received_kib_per_s" : "pcie_sent_kib_per_s", kib_per_s));
}

API result nvmlDeviceGetEccMode(void *device, unsigned *current, unsigned *pending) {
    GPU_CALL("nvmlDeviceGetEccMode")
    result answer = number_of(gpu, "ecc_enabled", current);
    return leave(answer ? answer : number_of(gpu, "ecc_enabled", pending));
}

API result nvmlDeviceGetTotalEccErrors(void *device, unsigned is_uncorrected, unsigned is_aggregate,
                                       unsigned long long *count) {
    static const char *const keys[] = {"ecc_corrected", "ecc_uncorrected", "ecc_corrected_ever",
                                       "ecc_uncorrected_ever"};
    GPU_CALL("nvmlDeviceGetTotalEccErrors")
    if (is_uncorrected > 1 || is_aggregate > 1)
        return leave(INVALID_ARGUMENT);
    return leave(bytes_of(gpu, keys[is_uncorrected + 2 * is_aggregate], count));
}

API result nvmlDeviceGetRemappedRows(void *device, unsigned *corrected, unsigned *uncorrected, unsigned *is_pending,
                                     unsigned *has_failed) {
    GPU_CALL("nvmlDeviceGetRemappedRows")
    const json *rows = json_get(gpu, "remapped_rows");
    if (!corrected || !uncorrected || !is_pending || !has_failed)
        return leave(INVALID_ARGUMENT);
    if (!json_has(gpu, "remapped_rows"))
        return leave(NOT_SUPPORTED);
    *corrected = (unsigned)json_number(rows, "corrected", 0);
    *uncorrected = (unsigned)json_number(rows, "uncorrected", 0);
    *is_pending = (unsigned)json_is_true(rows, "pending");
    *has_failed = (unsigned)json_is_true(rows, "failed");
    return leave(SUCCESS);
}

struct process {
    uint32_t pid;
    uint64_t memory_bytes;
    uint32_t gpu_instance, compute_instance;
};

/* The first call of a client asks for the number, with no room for the processes. */
static result processes(const char *function, const char *kind, void *device, unsigned *count, struct process *to) {
    DEVICE_CALL(function)
    unsigned room, found = 0;
    if (!count)
        return leave(INVALID_ARGUMENT);
    room = to ? *count : 0;
    for (const json *each = json_at(json_get(gpu, "processes"), 0); each; each = each->next) {
        if (strcmp(json_text(each, "kind", "compute"), kind))
            continue;
        unsigned gpu_instance = (unsigned)json_number(each, "gpu_instance", NO_INSTANCE);
        if (subject != gpu && gpu_instance != (unsigned)json_number(subject, "gpu_instance", 0))
            continue;
        if (found < room) {
            to[found].pid = (uint32_t)json_number(each, "pid", 0);
            to[found].memory_bytes = (uint64_t)json_number(each, "memory_bytes", 0);
            to[found].gpu_instance = gpu_instance;
            to[found].compute_instance = (unsigned)json_number(each, "compute_instance", NO_INSTANCE);
        }
        ++found;
    }
    *count = found;
    return leave(found > room ? INSUFFICIENT_SIZE : SUCCESS);
}

#define PROCESSES(name, kind)                                                                                          \
    API result name##_v3(void *device, unsigned *count, struct process *to) {                                          \
        return processes(#name, kind, device, count, to);                                                              \
    }                                                                                                                  \
    API result name##_v2(void *device, unsigned *count, struct process *to) {                                          \
        return processes(#name, kind, device, count, to);                                                              \
    }

PROCESSES(nvmlDeviceGetComputeRunningProcesses, "compute")
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, "graphics")
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses, "mps")
