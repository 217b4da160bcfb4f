/* The machine, the handles, and the beginning and end of every call. */
#include "fake.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t changed;

static json *current;
static handle *handles;
static int starts;           /* calls of nvmlInit without their nvmlShutdown */
static long long generation; /* of the driver, when the first of them came */

__attribute__((constructor)) static void prepare(void) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &attributes);
}

const json *machine(void) { return current; }

void replace_machine(json *description) {
    json_free(current);
    current = description;
    pthread_cond_broadcast(&changed);
}

static const json *driver(void) { return json_get(current, "driver"); }

static int is_driver_replaced(void) { return json_number(driver(), "generation", 0) != generation; }

int is_started(void) { return starts && !is_driver_replaced(); }

const json *all_gpus(void) { return json_get(current, "gpus"); }

int is_lost(const json *gpu) { return json_is_true(gpu, "lost"); }

const json *find_gpu(const char *uuid) {
    for (const json *gpu = json_at(all_gpus(), 0); gpu; gpu = gpu->next)
        if (!strcmp(json_text(gpu, "uuid", ""), uuid))
            return gpu;
    return NULL;
}

const json *find_mig_device(const char *uuid, const json **parent) {
    for (const json *gpu = json_at(all_gpus(), 0); gpu; gpu = gpu->next) {
        const json *mig = json_get(gpu, "mig");
        if (!json_is_true(mig, "enabled"))
            continue;
        for (const json *device = json_at(json_get(mig, "devices"), 0); device; device = device->next)
            if (!strcmp(json_text(device, "uuid", ""), uuid)) {
                *parent = gpu;
                return device;
            }
    }
    return NULL;
}

handle *intern(enum kind kind, const char *uuid, unsigned gpu_instance, unsigned compute_instance) {
    for (handle *known = handles; known; known = known->next)
        if (known->kind == kind && known->gpu_instance == gpu_instance &&
            known->compute_instance == compute_instance && !strcmp(known->uuid, uuid))
            return known;
    handle *fresh = calloc(1, sizeof *fresh);
    if (!fresh)
        abort();
    fresh->kind = kind;
    fresh->gpu_instance = gpu_instance;
    fresh->compute_instance = compute_instance;
    snprintf(fresh->uuid, sizeof fresh->uuid, "%s", uuid);
    fresh->next = handles;
    return handles = fresh;
}

handle *gpu_handle(const json *gpu) { return intern(GPU, json_text(gpu, "uuid", ""), NO_INSTANCE, NO_INSTANCE); }

static int is_handle(const void *pointer) {
    for (const handle *known = handles; known; known = known->next)
        if (known == pointer)
            return 1;
    return 0;
}

/* The next fault for this function and GPU, after `last`. */
static const json *next_fault(const json *last, const char *function, const char *gpu_uuid) {
    const json *fault = last ? last->next : json_at(json_get(current, "faults"), 0);
    for (; fault; fault = fault->next) {
        const char *on = json_text(fault, "function", "*"), *gpu = json_text(fault, "gpu", NULL);
        int is_meant = strcmp(on, "*") ? !strcmp(on, function) : strcmp(function, "nvmlInit");
        if (is_meant && (!gpu || (gpu_uuid && !strcmp(gpu, gpu_uuid))))
            return fault;
    }
    return NULL;
}

static void sleep_ms(long long ms) {
    struct timespec span = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&span, &span))
        ;
}

/* Be slow, hang, crash or fail as ordered. The lock is held before and after, and not while it waits. */
static result suffer(const char *function, const char *gpu_uuid) {
    long long delay_ms = 0;
    const json *fault = NULL;
    while ((fault = next_fault(fault, function, gpu_uuid)))
        delay_ms += json_number(fault, "delay_ms", 0);
    if (delay_ms) {
        pthread_mutex_unlock(&lock);
        sleep_ms(delay_ms);
        pthread_mutex_lock(&lock);
    }
    while ((fault = next_fault(fault, function, gpu_uuid))) {
        if (json_has(fault, "signal"))
            raise((int)json_number(fault, "signal", SIGABRT));
        if (json_is_true(fault, "hang")) {
            pthread_cond_wait(&changed, &lock); /* and look anew: the machine may be another one */
            fault = NULL;
            continue;
        }
        if (json_has(fault, "result"))
            return (result)json_number(fault, "result", UNKNOWN);
    }
    return SUCCESS;
}

result leave(result answer) {
    pthread_mutex_unlock(&lock);
    return answer;
}

result enter(const char *function, const char *gpu_uuid) {
    pthread_mutex_lock(&lock);
    if (!is_started())
        return leave(UNINITIALIZED);
    result ordered = suffer(function, gpu_uuid);
    return ordered ? leave(ordered) : SUCCESS;
}

result enter_device(const char *function, void *device, const json **subject, const json **gpu) {
    char uuid[96] = "";
    const handle *known = device;
    pthread_mutex_lock(&lock);
    if (!is_handle(device) || (known->kind != GPU && known->kind != MIG_DEVICE))
        return leave(is_started() ? INVALID_ARGUMENT : UNINITIALIZED);
    const json *parent = find_gpu(known->uuid);
    if (known->kind == MIG_DEVICE)
        find_mig_device(known->uuid, &parent);
    snprintf(uuid, sizeof uuid, "%s", json_text(parent, "uuid", ""));
    pthread_mutex_unlock(&lock);
    result entered = enter(function, uuid);
    if (entered)
        return entered;
    *gpu = NULL;
    *subject = known->kind == GPU ? (*gpu = find_gpu(known->uuid)) : find_mig_device(known->uuid, gpu);
    if (!*subject)
        return leave(known->kind == GPU ? GPU_IS_LOST : INVALID_ARGUMENT);
    if (is_lost(*gpu) && strcmp(function, "nvmlDeviceGetIndex"))
        return leave(GPU_IS_LOST);
    return SUCCESS;
}

result copy_text(const char *text, char *to, unsigned size) {
    size_t length = strlen(text) + 1;
    if (!to)
        return INVALID_ARGUMENT;
    if (length > size)
        return INSUFFICIENT_SIZE;
    memcpy(to, text, length);
    return SUCCESS;
}

result number_of(const json *subject, const char *key, unsigned *to) {
    if (!to)
        return INVALID_ARGUMENT;
    if (!json_has(subject, key))
        return NOT_SUPPORTED;
    *to = (unsigned)json_number(subject, key, 0);
    return SUCCESS;
}

result bytes_of(const json *subject, const char *key, unsigned long long *to) {
    if (!to)
        return INVALID_ARGUMENT;
    if (!json_has(subject, key))
        return NOT_SUPPORTED;
    *to = (unsigned long long)json_number(subject, key, 0);
    return SUCCESS;
}

static json *read_description(const char *path) {
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    size_t size = 0, used = 0, got = 0;
    if (!file) {
        fprintf(stderr, "plugbay's fake NVML cannot read %s, which PLUGBAY_FAKE_NVML names\n", path);
        return NULL;
    }
    do {
        used += got;
        if (size - used < 4096 && !(text = realloc(text, size = size * 2 + 65536)))
            abort();
    } while ((got = fread(text + used, 1, size - used - 1, file)) > 0);
    fclose(file);
    text[used] = 0;
    json *description = json_parse(text);
    free(text);
    if (!description)
        fprintf(stderr, "plugbay's fake NVML reads %s, which is not JSON\n", path);
    return description;
}

/* Take the machine from the control socket, or else from the file. */
static result load_machine(void) {
    const char *path = getenv("PLUGBAY_FAKE_NVML");
    int connected = connect_control();
    if (connected)
        return connected > 0 ? SUCCESS : DRIVER_NOT_LOADED;
    if (!path)
        return DRIVER_NOT_LOADED;
    json *description = read_description(path);
    if (!description)
        return UNKNOWN;
    replace_machine(description);
    return SUCCESS;
}

API result nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    pthread_mutex_lock(&lock);
    if (!is_started()) {
        result loaded = starts ? SUCCESS : load_machine();
        if (loaded)
            return leave(loaded);
        loaded = suffer("nvmlInit", NULL);
        if (!loaded)
            loaded = (result)json_number(driver(), "init_result", SUCCESS);
        if (loaded)
            return leave(loaded);
        generation = json_number(driver(), "generation", 0);
    }
    ++starts;
    return leave(SUCCESS);
}

API result nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
API result nvmlInit(void) { return nvmlInitWithFlags(0); }

API result nvmlShutdown(void) {
    pthread_mutex_lock(&lock);
    if (!starts)
        return leave(UNINITIALIZED);
    --starts;
    return leave(SUCCESS);
}
