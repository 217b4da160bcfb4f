/* The control socket: lines of JSON that replace the machine or bring an event, each answered with its number. */

#include "fake.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct reader {
    int socket;
    char *text;
    size_t size, used;
    size_t taken; /* of the beginning of the text, by the line before */
};

static struct reader reader = {.socket = -1};

/* The next line, without its end; NULL when the other side has closed. It is good until the next call. */
static char *next_line(void) {
    memmove(reader.text, reader.text + reader.taken, reader.used -= reader.taken);
    reader.taken = 0;
    for (size_t searched = 0;;) {
        char *end = memchr(reader.text + searched, '\n', reader.used - searched);
        if (end) {
            *end = 0;
            reader.taken = (size_t)(end - reader.text) + 1;
            return reader.text;
        }
        searched = reader.used;
        if (reader.size - reader.used < 4096 && !(reader.text = realloc(reader.text, reader.size *= 2)))
            abort();
        ssize_t got = read(reader.socket, reader.text + reader.used, reader.size - reader.used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return NULL;
        reader.used += (size_t)got;
    }
}

/* Do what a line orders, with the lock held. */
static void obey(json *order) {
    const json *event = json_get(order, "event");
    if (event)
        deliver_event(event);
    for (json **place = &order->first; *place; place = &(*place)->next)
        if (!strcmp((*place)->key, "machine")) {
            json *description = *place;
            *place = description->next;
            description->next = NULL;
            replace_machine(description);
            break;
        }
}

static int take_order(int is_locked) {
    char *line = next_line(), answer[32];
    if (!line)
        return 0;
    json *order = json_parse(line);
    if (!order || order->type != JSON_OBJECT) {
        json_free(order);
        return 0;
    }
    int size = snprintf(answer, sizeof answer, "%lld\n", json_number(order, "number", 0));
    if (!is_locked)
        pthread_mutex_lock(&lock);
    obey(order);
    if (!is_locked)
        pthread_mutex_unlock(&lock);
    json_free(order);
    return send(reader.socket, answer, (size_t)size, MSG_NOSIGNAL) == size;
}

static void *obey_all(void *unused) {
    (void)unused;
    while (take_order(0))
        ;
    pthread_mutex_lock(&lock);
    close(reader.socket);
    reader.socket = -1; /* the machine stays as it is; the next start connects again */
    pthread_mutex_unlock(&lock);
    return NULL;
}

static int start_thread(void) {
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 256 * 1024);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the threads of the program */
    int failed = pthread_create(&thread, &attributes, obey_all, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return failed ? -1 : 1;
}

int connect_control(void) {
    const char *path = getenv("PLUGBAY_FAKE_NVML_CONTROL");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!path || !*path)
        return 0;
    if (reader.socket >= 0)
        return 1;
    if (strlen(path) >= sizeof address.sun_path)
        return -1;
    strcpy(address.sun_path, path);
    reader.socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    reader.used = reader.taken = 0;
    if (!reader.text && !(reader.text = malloc(reader.size = 65536)))
        abort();
    if (!connect(reader.socket, (struct sockaddr *)&address, sizeof address) && take_order(1) && start_thread() > 0)
        return 1;
    close(reader.socket);
    reader.socket = -1;
    return -1;
}
