/* JSON, read into a tree: as much as a description of a machine needs. */
#ifndef JSON_H
#define JSON_H

#include <stddef.h>

enum json_type { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_TEXT, JSON_LIST, JSON_OBJECT };

typedef struct json {
    enum json_type type;
    char *key;        /* in an object */
    char *text;       /* of JSON_TEXT */
    long long number; /* of JSON_NUMBER; fractions are cut off */
    struct json *first, *next;
} json;

/* The tree of a text, or NULL when it is not JSON. */
json *json_parse(const char *text);
void json_free(json *value);

/* All of these accept NULL, and answer NULL or the default for what is missing or of another type. */
const json *json_get(const json *object, const char *key);
const json *json_at(const json *list, size_t place);
size_t json_length(const json *list);
long long json_number(const json *object, const char *key, long long otherwise);
const char *json_text(const json *object, const char *key, const char *otherwise);
int json_is_true(const json *object, const char *key);
int json_has(const json *object, const char *key); /* and it is not null */

#endif
