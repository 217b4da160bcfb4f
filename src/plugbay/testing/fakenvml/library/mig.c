/* MIG: modes, devices, instances and profiles. */
#include "fake.h"

#include <stdio.h>
#include <string.h>

#define GPU_INSTANCE_PROFILES 18
#define COMPUTE_INSTANCE_PROFILES 9

static unsigned field(const json *object, const char *key) { return (unsigned)json_number(object, key, 0); }

static const json *devices_of(const json *gpu) {
    const json *mig = json_get(gpu, "mig");
    return json_is_true(mig, "enabled") ? json_at(json_get(mig, "devices"), 0) : NULL;
}

static const json *profile_of(const json *gpu, unsigned index) {
    const json *profile = json_at(json_get(json_get(gpu, "mig"), "profiles"), 0);
    while (profile && field(profile, "index") != index)
        profile = profile->next;
    return profile;
}

API result nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending) {
    GPU_CALL("nvmlDeviceGetMigMode")
    const json *mig = json_get(gpu, "mig");
    if (!current || !pending)
        return leave(INVALID_ARGUMENT);
    if (!json_has(gpu, "mig"))
        return leave(NOT_SUPPORTED);
    *current = (unsigned)json_is_true(mig, "enabled");
    *pending = json_has(mig, "pending") ? (unsigned)json_is_true(mig, "pending") : *current;
    return leave(SUCCESS);
}

API result nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *count) {
    GPU_CALL("nvmlDeviceGetMaxMigDeviceCount")
    if (!count)
        return leave(INVALID_ARGUMENT);
    *count = json_has(gpu, "mig") ? (unsigned)json_number(json_get(gpu, "mig"), "max_devices", 7) : 0;
    return leave(SUCCESS);
}

API result nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned slot, void **mig_device) {
    GPU_CALL("nvmlDeviceGetMigDeviceHandleByIndex")
    if (!mig_device || slot >= (unsigned)json_number(json_get(gpu, "mig"), "max_devices", 7))
        return leave(INVALID_ARGUMENT);
    for (const json *each = devices_of(gpu); each; each = each->next)
        if (field(each, "slot") == slot) {
            *mig_device = intern(MIG_DEVICE, json_text(each, "uuid", ""), NO_INSTANCE, NO_INSTANCE);
            return leave(SUCCESS);
        }
    return leave(NOT_FOUND);
}

API result nvmlDeviceIsMigDeviceHandle(void *device, unsigned *is_mig) {
    DEVICE_CALL("nvmlDeviceIsMigDeviceHandle")
    if (!is_mig)
        return leave(INVALID_ARGUMENT);
    *is_mig = subject != gpu;
    return leave(SUCCESS);
}

API result nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *device, void **parent) {
    DEVICE_CALL("nvmlDeviceGetDeviceHandleFromMigDeviceHandle")
    if (subject == gpu || !parent)
        return leave(INVALID_ARGUMENT);
    *parent = gpu_handle(gpu);
    return leave(SUCCESS);
}

API result nvmlDeviceGetGpuInstanceId(void *device, unsigned *id) {
    DEVICE_CALL("nvmlDeviceGetGpuInstanceId")
    return leave(subject == gpu ? INVALID_ARGUMENT : number_of(subject, "gpu_instance", id));
}

API result nvmlDeviceGetComputeInstanceId(void *device, unsigned *id) {
    DEVICE_CALL("nvmlDeviceGetComputeInstanceId")
    return leave(subject == gpu ? INVALID_ARGUMENT : number_of(subject, "compute_instance", id));
}

struct attributes {
    uint32_t multiprocessors, copy_engines, decoders, encoders, jpeg_engines, ofa_engines, gpu_slices, compute_slices;
    uint64_t memory_mib;
};

API result nvmlDeviceGetAttributes_v2(void *device, struct attributes *to) {
    DEVICE_CALL("nvmlDeviceGetAttributes")
    if (!to)
        return leave(INVALID_ARGUMENT);
    if (subject == gpu)
        return leave(NOT_SUPPORTED);
    to->multiprocessors = field(subject, "multiprocessors");
    to->copy_engines = field(subject, "copy_engines");
    to->decoders = field(subject, "decoders");
    to->encoders = field(subject, "encoders");
    to->jpeg_engines = field(subject, "jpeg_engines");
    to->ofa_engines = field(subject, "ofa_engines");
    to->gpu_slices = field(subject, "gpu_slices");
    to->compute_slices = field(subject, "compute_slices");
    to->memory_mib = (uint64_t)json_number(subject, "memory_mib", 0);
    return leave(SUCCESS);
}

API result nvmlDeviceGetAttributes(void *device, struct attributes *to) { return nvmlDeviceGetAttributes_v2(device, to); }

API result nvmlDeviceGetGpuInstanceById(void *device, unsigned id, void **instance) {
    GPU_CALL("nvmlDeviceGetGpuInstanceById")
    if (!instance)
        return leave(INVALID_ARGUMENT);
    for (const json *each = devices_of(gpu); each; each = each->next)
        if (field(each, "gpu_instance") == id) {
            *instance = intern(GPU_INSTANCE, json_text(gpu, "uuid", ""), id, NO_INSTANCE);
            return leave(SUCCESS);
        }
    return leave(NOT_FOUND);
}

/* Begin a call on an instance: the GPU and the MIG device that has it. */
static result enter_instance(const char *function, enum kind kind, void *instance, const json **gpu, const json **device) {
    const handle *known = instance;
    if (!known || known->kind != kind)
        return INVALID_ARGUMENT;
    result entered = enter(function, known->uuid);
    if (entered)
        return entered;
    *gpu = find_gpu(known->uuid);
    if (!*gpu || is_lost(*gpu))
        return leave(GPU_IS_LOST);
    *device = devices_of(*gpu);
    while (*device && (field(*device, "gpu_instance") != known->gpu_instance ||
                       (kind == COMPUTE_INSTANCE && field(*device, "compute_instance") != known->compute_instance)))
        *device = (*device)->next;
    return *device ? SUCCESS : leave(NOT_FOUND);
}

struct gpu_instance_info {
    void *device;
    uint32_t id, profile, start, size;
};

API result nvmlGpuInstanceGetInfo(void *instance, struct gpu_instance_info *info) {
    const json *gpu, *device;
    result entered = enter_instance("nvmlGpuInstanceGetInfo", GPU_INSTANCE, instance, &gpu, &device);
    if (entered)
        return entered;
    if (!info)
        return leave(INVALID_ARGUMENT);
    const json *profile = profile_of(gpu, field(device, "profile"));
    info->device = gpu_handle(gpu);
    info->id = field(device, "gpu_instance");
    info->profile = (uint32_t)json_number(profile, "id", NO_INSTANCE);
    info->start = field(device, "placement");
    info->size = (uint32_t)json_number(profile, "slices", 0);
    return leave(SUCCESS);
}

API result nvmlGpuInstanceGetComputeInstanceById(void *instance, unsigned id, void **compute_instance) {
    const json *gpu, *device;
    result entered =
        enter_instance("nvmlGpuInstanceGetComputeInstanceById", GPU_INSTANCE, instance, &gpu, &device);
    if (entered)
        return entered;
    if (!compute_instance)
        return leave(INVALID_ARGUMENT);
    for (const json *each = devices_of(gpu); each; each = each->next)
        if (field(each, "gpu_instance") == ((handle *)instance)->gpu_instance && field(each, "compute_instance") == id) {
            *compute_instance = intern(COMPUTE_INSTANCE, json_text(gpu, "uuid", ""), field(each, "gpu_instance"), id);
            return leave(SUCCESS);
        }
    return leave(NOT_FOUND);
}

struct compute_instance_info {
    void *device, *gpu_instance;
    uint32_t id, profile, start, size;
};

API result nvmlComputeInstanceGetInfo_v2(void *instance, struct compute_instance_info *info) {
    const json *gpu, *device;
    result entered = enter_instance("nvmlComputeInstanceGetInfo", COMPUTE_INSTANCE, instance, &gpu, &device);
    if (entered)
        return entered;
    if (!info)
        return leave(INVALID_ARGUMENT);
    info->device = gpu_handle(gpu);
    info->gpu_instance = intern(GPU_INSTANCE, json_text(gpu, "uuid", ""), field(device, "gpu_instance"), NO_INSTANCE);
    info->id = field(device, "compute_instance");
    info->profile = field(device, "compute_profile"); /* IDs of these profiles are their indices, as on real GPUs */
    info->start = field(device, "compute_placement");
    info->size = field(device, "compute_slices");
    return leave(SUCCESS);
}

struct gpu_profile {
    uint32_t id, is_p2p_supported, slices, instances, multiprocessors, copy_engines, decoders, encoders, jpeg_engines,
        ofa_engines;
    uint64_t memory_mib;
};

struct gpu_profile_v2 {
    uint32_t version, id, is_p2p_supported, slices, instances, multiprocessors, copy_engines, decoders, encoders,
        jpeg_engines, ofa_engines;
    uint64_t memory_mib;
    char name[96];
};

static result find_profile(void *device, unsigned index, struct gpu_profile *to, char *name) {
    GPU_CALL("nvmlDeviceGetGpuInstanceProfileInfo")
    const json *profile = profile_of(gpu, index);
    if (!to || index >= GPU_INSTANCE_PROFILES)
        return leave(INVALID_ARGUMENT);
    if (!profile)
        return leave(NOT_SUPPORTED);
    memset(to, 0, sizeof *to);
    to->id = field(profile, "id");
    to->slices = field(profile, "slices");
    to->instances = field(profile, "instances");
    to->multiprocessors = field(profile, "multiprocessors");
    to->copy_engines = field(profile, "copy_engines");
    to->decoders = field(profile, "decoders");
    to->encoders = field(profile, "encoders");
    to->jpeg_engines = field(profile, "jpeg_engines");
    to->ofa_engines = field(profile, "ofa_engines");
    to->memory_mib = (uint64_t)json_number(profile, "memory_mib", 0);
    if (name)
        snprintf(name, 96, "MIG %s", json_text(profile, "name", ""));
    return leave(SUCCESS);
}

API result nvmlDeviceGetGpuInstanceProfileInfo(void *device, unsigned index, struct gpu_profile *to) {
    return find_profile(device, index, to, NULL);
}

API result nvmlDeviceGetGpuInstanceProfileInfoV(void *device, unsigned index, struct gpu_profile_v2 *to) {
    struct gpu_profile plain;
    result found = find_profile(device, index, to ? &plain : NULL, to ? to->name : NULL);
    if (!found) {
        memcpy(&to->id, &plain, offsetof(struct gpu_profile, memory_mib));
        to->memory_mib = plain.memory_mib;
    }
    return found;
}

struct compute_profile {
    uint32_t id, slices, instances, multiprocessors, copy_engines, decoders, encoders, jpeg_engines, ofa_engines;
};

struct compute_profile_v2 {
    uint32_t version, id, slices, instances, multiprocessors, copy_engines, decoders, encoders, jpeg_engines,
        ofa_engines;
    char name[96];
};

API result nvmlGpuInstanceGetComputeInstanceProfileInfo(void *instance, unsigned index, unsigned engine,
                                                        struct compute_profile *to) {
    static const unsigned slices[COMPUTE_INSTANCE_PROFILES] = {1, 2, 3, 4, 7, 8, 6, 1, 7};
    const json *gpu, *device;
    result entered =
        enter_instance("nvmlGpuInstanceGetComputeInstanceProfileInfo", GPU_INSTANCE, instance, &gpu, &device);
    if (entered)
        return entered;
    if (!to || index >= COMPUTE_INSTANCE_PROFILES || engine)
        return leave(INVALID_ARGUMENT);
    unsigned most = (unsigned)json_number(profile_of(gpu, field(device, "profile")), "slices", 0);
    if (slices[index] > most || index >= 7)
        return leave(NOT_SUPPORTED);
    memset(to, 0, sizeof *to);
    to->id = index;
    to->slices = slices[index];
    to->instances = most / slices[index];
    to->multiprocessors = field(device, "multiprocessors");
    return leave(SUCCESS);
}

API result nvmlGpuInstanceGetComputeInstanceProfileInfoV(void *instance, unsigned index, unsigned engine,
                                                         struct compute_profile_v2 *to) {
    struct compute_profile plain;
    result found = nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, index, engine, to ? &plain : NULL);
    if (!found) {
        memcpy(&to->id, &plain, sizeof plain);
        snprintf(to->name, sizeof to->name, "MIG %uc", plain.slices);
    }
    return found;
}
