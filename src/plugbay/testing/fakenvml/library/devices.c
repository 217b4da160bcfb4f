/* The driver and its GPUs: the functions that every client uses. */
#include "fake.h"

#include <stdio.h>
#include <string.h>

static const struct { result code; const char *text; } errors[] = {
    {0, "Success"},
    {1, "Uninitialized"},
    {2, "Invalid Argument"},
    {3, "Not Supported"},
    {4, "Insufficient Permissions"},
    {5, "Already Initialized"},
    {6, "Not Found"},
    {7, "Insufficient Size"},
    {8, "Insufficient External Power"},
    {9, "Driver Not Loaded"},
    {10, "Timeout"},
    {11, "Interrupt Request Issue"},
    {12, "NVML Shared Library Not Found"},
    {13, "Function Not Found"},
    {14, "Corrupted infoROM"},
    {15, "GPU is lost"},
    {16, "GPU requires reset"},
    {17, "The operating system has blocked the request"},
    {18, "RM has detected an NVML/RM version mismatch."},
    {19, "In use by another client"},
    {20, "Insufficient Memory"},
    {21, "No data"},
    {23, "Insufficient Resources"},
    {25, "Argument version mismatch"},
    {27, "System is not ready for the request"},
    {28, "No GPUs were found"},
    {29, "In wrong state to perform requested operation"},
};

API const char *nvmlErrorString(result code) {
    for (size_t place = 0; place < sizeof errors / sizeof *errors; ++place)
        if (errors[place].code == code)
            return errors[place].text;
    return "Unknown Error";
}

static result driver_text(const char *function, const char *key, char *to, unsigned size) {
    result entered = enter(function, NULL);
    return entered ? entered : leave(copy_text(json_text(json_get(machine(), "driver"), key, ""), to, size));
}

API result nvmlSystemGetDriverVersion(char *version, unsigned size) {
    return driver_text("nvmlSystemGetDriverVersion", "version", version, size);
}

API result nvmlSystemGetNVMLVersion(char *version, unsigned size) {
    return driver_text("nvmlSystemGetNVMLVersion", "nvml_version", version, size);
}

API result nvmlSystemGetCudaDriverVersion(int *version) {
    result entered = enter("nvmlSystemGetCudaDriverVersion", NULL);
    if (entered)
        return entered;
    if (!version)
        return leave(INVALID_ARGUMENT);
    *version = (int)json_number(json_get(machine(), "driver"), "cuda_version", 0);
    return leave(SUCCESS);
}

API result nvmlSystemGetCudaDriverVersion_v2(int *version) { return nvmlSystemGetCudaDriverVersion(version); }

API result nvmlSystemGetProcessName(unsigned pid, char *name, unsigned size) {
    result entered = enter("nvmlSystemGetProcessName", NULL);
    if (entered)
        return entered;
    for (const json *gpu = json_at(all_gpus(), 0); gpu; gpu = gpu->next)
        for (const json *process = json_at(json_get(gpu, "processes"), 0); process; process = process->next)
            if (json_number(process, "pid", -1) == pid)
                return leave(copy_text(json_text(process, "name", ""), name, size));
    return leave(NOT_FOUND);
}

API result nvmlDeviceGetCount_v2(unsigned *count) {
    result entered = enter("nvmlDeviceGetCount", NULL);
    if (entered)
        return entered;
    if (!count)
        return leave(INVALID_ARGUMENT);
    *count = (unsigned)json_length(all_gpus());
    return leave(SUCCESS);
}

API result nvmlDeviceGetCount(unsigned *count) { return nvmlDeviceGetCount_v2(count); }

/* Hand out a handle of a GPU that was found by `gpu_of`, unless it is lost. */
static result hand_out(const char *function, const json *gpu, void **device) {
    char uuid[96];
    if (!device)
        return leave(INVALID_ARGUMENT);
    if (!gpu)
        return leave(NOT_FOUND);
    snprintf(uuid, sizeof uuid, "%s", json_text(gpu, "uuid", ""));
    pthread_mutex_unlock(&lock);
    result entered = enter(function, uuid); /* again, for what is ordered for this GPU only */
    if (entered)
        return entered;
    gpu = find_gpu(uuid);
    if (!gpu || is_lost(gpu))
        return leave(GPU_IS_LOST);
    *device = gpu_handle(gpu);
    return leave(SUCCESS);
}

static result begin(void) {
    pthread_mutex_lock(&lock);
    return is_started() ? SUCCESS : leave(UNINITIALIZED);
}

API result nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    if (begin())
        return UNINITIALIZED;
    if (index >= json_length(all_gpus()))
        return leave(INVALID_ARGUMENT);
    return hand_out("nvmlDeviceGetHandleByIndex", json_at(all_gpus(), index), device);
}

API result nvmlDeviceGetHandleByIndex(unsigned index, void **device) {
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

API result nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    const json *parent = NULL;
    if (!uuid)
        return INVALID_ARGUMENT;
    if (begin())
        return UNINITIALIZED;
    if (!find_mig_device(uuid, &parent) || !device)
        return hand_out("nvmlDeviceGetHandleByUUID", find_gpu(uuid), device);
    pthread_mutex_unlock(&lock);
    result entered = enter("nvmlDeviceGetHandleByUUID", uuid);
    if (entered)
        return entered;
    *device = intern(MIG_DEVICE, uuid, NO_INSTANCE, NO_INSTANCE);
    return leave(SUCCESS);
}

/* The domain of an ID may have four digits or eight. */
static int is_same_bus_id(const char *one, const char *other) {
    unsigned a[4], b[4];
    return sscanf(one, "%x:%x:%x.%x", a, a + 1, a + 2, a + 3) == 4 &&
           sscanf(other, "%x:%x:%x.%x", b, b + 1, b + 2, b + 3) == 4 && !memcmp(a, b, sizeof a);
}

API result nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **device) {
    if (!bus_id)
        return INVALID_ARGUMENT;
    if (begin())
        return UNINITIALIZED;
    const json *gpu = json_at(all_gpus(), 0);
    while (gpu && !is_same_bus_id(json_text(gpu, "bus_id", ""), bus_id))
        gpu = gpu->next;
    return hand_out("nvmlDeviceGetHandleByPciBusId", gpu, device);
}

API result nvmlDeviceGetHandleByPciBusId(const char *bus_id, void **device) {
    return nvmlDeviceGetHandleByPciBusId_v2(bus_id, device);
}

API result nvmlDeviceGetName(void *device, char *name, unsigned size) {
    DEVICE_CALL("nvmlDeviceGetName")
    char full[160];
    const char *profile = subject == gpu ? NULL : json_text(subject, "name", NULL);
    snprintf(full, sizeof full, "%s%s%s", json_text(gpu, "name", ""), profile ? " MIG " : "", profile ? profile : "");
    return leave(copy_text(full, name, size));
}

API result nvmlDeviceGetUUID(void *device, char *uuid, unsigned size) {
    DEVICE_CALL("nvmlDeviceGetUUID")
    return leave(copy_text(json_text(subject, "uuid", ""), uuid, size));
}

API result nvmlDeviceGetSerial(void *device, char *serial, unsigned size) {
    GPU_CALL("nvmlDeviceGetSerial")
    return leave(json_has(gpu, "serial") ? copy_text(json_text(gpu, "serial", ""), serial, size) : NOT_SUPPORTED);
}

API result nvmlDeviceGetIndex(void *device, unsigned *index) {
    DEVICE_CALL("nvmlDeviceGetIndex")
    if (!index)
        return leave(INVALID_ARGUMENT);
    *index = 0;
    if (subject != gpu)
        *index = (unsigned)json_number(subject, "slot", 0);
    else
        for (const json *other = json_at(all_gpus(), 0); other != gpu; other = other->next)
            ++*index;
    return leave(SUCCESS);
}

API result nvmlDeviceGetMinorNumber(void *device, unsigned *minor) {
    GPU_CALL("nvmlDeviceGetMinorNumber")
    return leave(number_of(gpu, "minor", minor));
}

API result nvmlDeviceGetNumaNodeId(void *device, unsigned *node) {
    GPU_CALL("nvmlDeviceGetNumaNodeId")
    return leave(number_of(gpu, "memory_numa_node", node));
}

struct pci_info {
    char legacy_bus_id[16];
    uint32_t domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

/* `bus_id` may be of no GPU: that of a switch. */
static void fill_pci(struct pci_info *info, const char *bus_id, const json *gpu) {
    unsigned parts[4] = {0, 0, 0, 0};
    memset(info, 0, sizeof *info);
    sscanf(bus_id, "%x:%x:%x.%x", parts, parts + 1, parts + 2, parts + 3);
    info->domain = parts[0];
    info->bus = parts[1];
    info->device = parts[2];
    info->device_id = (uint32_t)json_number(gpu, "pci_device_id", 0);
    info->subsystem_id = (uint32_t)json_number(gpu, "pci_subsystem_id", 0);
    snprintf(info->legacy_bus_id, sizeof info->legacy_bus_id, "%04X:%02X:%02X.%X", parts[0] & 0xFFFF, parts[1] & 0xFF,
             parts[2] & 0xFF, parts[3] & 0xF);
    snprintf(info->bus_id, sizeof info->bus_id, "%08X:%02X:%02X.%X", parts[0], parts[1], parts[2], parts[3]);
}

API result nvmlDeviceGetPciInfo_v3(void *device, struct pci_info *info) {
    DEVICE_CALL("nvmlDeviceGetPciInfo")
    if (!info)
        return leave(INVALID_ARGUMENT);
    fill_pci(info, json_text(gpu, "bus_id", ""), gpu);
    return leave(SUCCESS);
}

API result nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) {
    DEVICE_CALL("nvmlDeviceGetCudaComputeCapability")
    const json *pair = json_get(gpu, "compute_capability");
    if (!major || !minor)
        return leave(INVALID_ARGUMENT);
    if (json_length(pair) != 2)
        return leave(NOT_SUPPORTED);
    *major = (int)json_at(pair, 0)->number;
    *minor = (int)json_at(pair, 1)->number;
    return leave(SUCCESS);
}

API result nvmlDeviceGetBrand(void *device, unsigned *brand) {
    GPU_CALL("nvmlDeviceGetBrand")
    return leave(number_of(gpu, "brand", brand));
}

API result nvmlDeviceGetArchitecture(void *device, unsigned *architecture) {
    DEVICE_CALL("nvmlDeviceGetArchitecture")
    return leave(number_of(gpu, "architecture", architecture));
}

API result nvmlDeviceGetVirtualizationMode(void *device, unsigned *mode) {
    GPU_CALL("nvmlDeviceGetVirtualizationMode")
    return leave(number_of(gpu, "virtualization", mode));
}

struct addressing_mode {
    unsigned version, value;
};

API result nvmlDeviceGetAddressingMode(void *device, struct addressing_mode *mode) {
    GPU_CALL("nvmlDeviceGetAddressingMode")
    return leave(mode ? number_of(gpu, "addressing", &mode->value) : INVALID_ARGUMENT);
}

/* The fabric of multi-node NVLink. */

struct fabric_info {
    uint8_t cluster_uuid[16];
    int32_t status;
    uint32_t clique;
    uint8_t state;
};

struct fabric_info_v2 {
    uint32_t version;
    uint8_t cluster_uuid[16];
    int32_t status;
    uint32_t clique;
    uint8_t state;
    uint32_t health_mask;
};

static void fill_uuid(uint8_t *to, const char *text) {
    int place = 0;
    unsigned byte;
    memset(to, 0, 16);
    while (place < 16 && *text) {
        if (*text == '-')
            ++text;
        else if (sscanf(text, "%2x", &byte) != 1)
            return;
        else {
            to[place++] = (uint8_t)byte;
            text += text[1] ? 2 : 1;
        }
    }
}

API result nvmlDeviceGetGpuFabricInfo(void *device, struct fabric_info *info) {
    GPU_CALL("nvmlDeviceGetGpuFabricInfo")
    const json *fabric = json_get(gpu, "fabric");
    if (!info)
        return leave(INVALID_ARGUMENT);
    if (!json_has(gpu, "fabric"))
        return leave(NOT_SUPPORTED);
    fill_uuid(info->cluster_uuid, json_text(fabric, "cluster_uuid", ""));
    info->status = (int32_t)json_number(fabric, "status", 0);
    info->clique = (uint32_t)json_number(fabric, "clique", 0);
    info->state = (uint8_t)json_number(fabric, "state", 0);
    return leave(SUCCESS);
}

API result nvmlDeviceGetGpuFabricInfoV(void *device, struct fabric_info_v2 *info) {
    struct fabric_info plain;
    result answer = nvmlDeviceGetGpuFabricInfo(device, info ? &plain : NULL);
    if (answer)
        return answer;
    memcpy(info->cluster_uuid, plain.cluster_uuid, sizeof plain.cluster_uuid);
    info->status = plain.status;
    info->clique = plain.clique;
    info->state = plain.state;
    info->health_mask = 0;
    return SUCCESS;
}

/* Links between GPUs. */

API result nvmlDeviceGetTopologyCommonAncestor(void *device, void *other, unsigned *level) {
    unsigned row, column;
    result answer = nvmlDeviceGetIndex(device, &row);
    if (!answer)
        answer = nvmlDeviceGetIndex(other, &column);
    if (answer)
        return answer;
    GPU_CALL("nvmlDeviceGetTopologyCommonAncestor")
    const json *known = json_at(json_at(json_get(machine(), "topology"), row), column);
    if (!level)
        return leave(INVALID_ARGUMENT);
    if (!known || known->type != JSON_NUMBER)
        return leave(NOT_SUPPORTED);
    *level = (unsigned)known->number;
    return leave(SUCCESS);
}

static const json *find_link(const json *gpu, unsigned number) {
    for (const json *link = json_at(json_get(gpu, "nvlinks"), 0); link; link = link->next)
        if (json_number(link, "link", -1) == number)
            return link;
    return NULL;
}

API result nvmlDeviceGetNvLinkState(void *device, unsigned number, unsigned *is_active) {
    GPU_CALL("nvmlDeviceGetNvLinkState")
    const json *link = find_link(gpu, number);
    if (!is_active)
        return leave(INVALID_ARGUMENT);
    if (!link)
        return leave(json_length(json_get(gpu, "nvlinks")) ? INVALID_ARGUMENT : NOT_SUPPORTED);
    *is_active = !json_has(link, "active") || json_is_true(link, "active");
    return leave(SUCCESS);
}

API result nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned number, struct pci_info *info) {
    GPU_CALL("nvmlDeviceGetNvLinkRemotePciInfo")
    const json *link = find_link(gpu, number);
    if (!info || !link)
        return leave(INVALID_ARGUMENT);
    fill_pci(info, json_text(link, "remote", ""), NULL);
    return leave(SUCCESS);
}

API result nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned number, unsigned *type) {
    GPU_CALL("nvmlDeviceGetNvLinkRemoteDeviceType")
    const json *link = find_link(gpu, number);
    if (!type || !link)
        return leave(INVALID_ARGUMENT);
    *type = json_is_true(link, "switch") ? 2 : 0;
    return leave(SUCCESS);
}
