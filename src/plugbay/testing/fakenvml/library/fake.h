/* What the parts of the fake share: return codes, handles, and the machine that every call looks at. */
#ifndef FAKE_H
#define FAKE_H

#include "json.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define API __attribute__((visibility("default")))

typedef int result;

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    TIMED_OUT = 10,
    GPU_IS_LOST = 15,
    ARGUMENT_VERSION_MISMATCH = 25,
    UNKNOWN = 999
};

#define NO_INSTANCE 0xFFFFFFFFu

enum kind { GPU, MIG_DEVICE, GPU_INSTANCE, COMPUTE_INSTANCE };

/* Handles are never freed: one may be used after what it stands for has gone. */
typedef struct handle {
    enum kind kind;
    char uuid[96]; /* of the GPU, or of the MIG device */
    unsigned gpu_instance, compute_instance;
    struct handle *next;
} handle;

/* The lock of all that follows, and the signal that the machine changed or an event came. */
extern pthread_mutex_t lock;
extern pthread_cond_t changed;

/* The machine, as its description says now; NULL before the first start. */
const json *machine(void);
/* Replace the machine; the caller holds the lock. */
void replace_machine(json *description);
/* Whether this process has initialised, and the driver is still the same; the caller holds the lock. */
int is_started(void);

const json *all_gpus(void);
const json *find_gpu(const char *uuid);
const json *find_mig_device(const char *uuid, const json **gpu);
int is_lost(const json *gpu);
handle *intern(enum kind kind, const char *uuid, unsigned gpu_instance, unsigned compute_instance);
handle *gpu_handle(const json *gpu);

/* Begin a call: take the lock, and do what the description orders for this function. The lock is held when the answer is
 * SUCCESS, and not otherwise. */
result enter(const char *function, const char *gpu_uuid);
/* Likewise for a call on a device. `subject` is the GPU or the MIG device, and `gpu` the (parent) GPU. */
result enter_device(const char *function, void *device, const json **subject, const json **gpu);
/* End a call. */
result leave(result answer);

result copy_text(const char *text, char *to, unsigned size);
/* A number of the subject; NOT_SUPPORTED when its description has none. */
result number_of(const json *subject, const char *key, unsigned *to);
result bytes_of(const json *subject, const char *key, unsigned long long *to);

/* Connect to the control socket, if there is one and we are not connected, and take the machine from there; -1 when it
 * cannot be done, 0 when there is none. The caller holds the lock. */
int connect_control(void);
/* Hand an event to the event sets that wait for it; the caller holds the lock. */
void deliver_event(const json *event);

#define DEVICE_CALL(name)                                                                                              \
    const json *subject, *gpu;                                                                                         \
    result entered = enter_device(name, device, &subject, &gpu);                                                       \
    if (entered)                                                                                                       \
        return entered;                                                                                                \
    (void)subject, (void)gpu;

/* A call that makes no sense on a MIG device. */
#define GPU_CALL(name)                                                                                                 \
    DEVICE_CALL(name)                                                                                                  \
    if (subject != gpu)                                                                                                \
        return leave(INVALID_ARGUMENT);

#endif
