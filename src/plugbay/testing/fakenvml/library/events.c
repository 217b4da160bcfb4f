/* Event sets: what is registered, what came, and the wait for it. */
#include "fake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EVERY_TYPE 11ull /* XID, double-bit and single-bit ECC */

struct registration {
    handle *device;
    unsigned long long types;
    struct registration *next;
};

struct event {
    handle *device;
    unsigned long long type, number;
    unsigned gpu_instance, compute_instance;
    struct event *next;
};

struct event_set {
    struct registration *registrations;
    struct event *first, **last;
    struct event_set *next;
};

struct event_data {
    void *device;
    uint64_t type, number;
    uint32_t gpu_instance, compute_instance;
};

static struct event_set *sets;

static struct event_set **place_of(const void *set) {
    struct event_set **place = &sets;
    while (*place && *place != set)
        place = &(*place)->next;
    return place;
}

API result nvmlEventSetCreate(void **to) {
    result entered = enter("nvmlEventSetCreate", NULL);
    if (entered)
        return entered;
    struct event_set *set = calloc(1, sizeof *set);
    if (!set || !to) {
        free(set);
        return leave(INVALID_ARGUMENT);
    }
    set->last = &set->first;
    set->next = sets;
    sets = set;
    *to = set;
    return leave(SUCCESS);
}

API result nvmlEventSetFree(void *set) {
    pthread_mutex_lock(&lock); /* no `enter`: sets of a replaced driver are freed, too */
    struct event_set **place = place_of(set), *known = *place;
    if (!known)
        return leave(INVALID_ARGUMENT);
    *place = known->next;
    for (struct registration *each = known->registrations, *next; each; each = next) {
        next = each->next;
        free(each);
    }
    for (struct event *each = known->first, *next; each; each = next) {
        next = each->next;
        free(each);
    }
    free(known);
    pthread_cond_broadcast(&changed);
    return leave(SUCCESS);
}

API result nvmlDeviceGetSupportedEventTypes(void *device, unsigned long long *types) {
    GPU_CALL("nvmlDeviceGetSupportedEventTypes")
    if (!types)
        return leave(INVALID_ARGUMENT);
    *types = (unsigned long long)json_number(gpu, "supported_events", EVERY_TYPE);
    return leave(SUCCESS);
}

API result nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set) {
    GPU_CALL("nvmlDeviceRegisterEvents")
    struct event_set *known = *place_of(set);
    unsigned long long supported = (unsigned long long)json_number(gpu, "supported_events", EVERY_TYPE);
    if (!known)
        return leave(INVALID_ARGUMENT);
    if (!supported || types & ~supported)
        return leave(NOT_SUPPORTED);
    for (struct registration *each = known->registrations; each; each = each->next)
        if (each->device == device) {
            each->types |= types;
            return leave(SUCCESS);
        }
    struct registration *fresh = calloc(1, sizeof *fresh);
    if (!fresh)
        abort();
    fresh->device = device;
    fresh->types = types;
    fresh->next = known->registrations;
    known->registrations = fresh;
    return leave(SUCCESS);
}

void deliver_event(const json *event) {
    const char *uuid = json_text(event, "gpu", "");
    unsigned long long type = (unsigned long long)json_number(event, "type", 8);
    for (struct event_set *set = sets; set; set = set->next)
        for (struct registration *each = set->registrations; each; each = each->next) {
            if (strcmp(each->device->uuid, uuid) || !(each->types & type))
                continue;
            struct event *fresh = calloc(1, sizeof *fresh);
            if (!fresh)
                abort();
            fresh->device = each->device;
            fresh->type = type;
            fresh->number = (unsigned long long)json_number(event, "number", 0);
            fresh->gpu_instance = (unsigned)json_number(event, "gpu_instance", NO_INSTANCE);
            fresh->compute_instance = (unsigned)json_number(event, "compute_instance", NO_INSTANCE);
            *set->last = fresh;
            set->last = &fresh->next;
        }
    pthread_cond_broadcast(&changed);
}

API result nvmlEventSetWait_v2(void *set, struct event_data *data, unsigned timeout_ms) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += timeout_ms % 1000 * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        ++until.tv_sec;
    }
    for (;;) {
        result entered = enter("nvmlEventSetWait", NULL); /* each time: what is ordered may have changed meanwhile */
        if (entered)
            return entered;
        struct event_set *known = *place_of(set);
        if (!known || !data)
            return leave(INVALID_ARGUMENT);
        struct event *event = known->first;
        if (event) {
            data->device = event->device;
            data->type = event->type;
            data->number = event->number;
            data->gpu_instance = event->gpu_instance;
            data->compute_instance = event->compute_instance;
            known->first = event->next;
            if (!known->first)
                known->last = &known->first;
            free(event);
            return leave(SUCCESS);
        }
        int waited = pthread_cond_timedwait(&changed, &lock, &until);
        pthread_mutex_unlock(&lock);
        if (waited == ETIMEDOUT)
            return TIMED_OUT;
    }
}

API result nvmlEventSetWait(void *set, struct event_data *data, unsigned timeout_ms) {
    return nvmlEventSetWait_v2(set, data, timeout_ms);
}
