#include "json.h"

#include <stdlib.h>
#include <string.h>

#define DEEPEST 64

static json *parse_value(const char **at, int depth);

static void skip_space(const char **at) {
    while (**at == ' ' || **at == '\t' || **at == '\n' || **at == '\r')
        ++*at;
}

static int hex4(const char *at) {
    int value = 0;
    for (int place = 0; place < 4; ++place) {
        char digit = at[place];
        value <<= 4;
        if (digit >= '0' && digit <= '9')
            value |= digit - '0';
        else if ((digit | 32) >= 'a' && (digit | 32) <= 'f')
            value |= (digit | 32) - 'a' + 10;
        else
            return -1;
    }
    return value;
}

/* Code points beyond U+FFFF come as two surrogates, and are kept as six bytes: names of hardware have none. */
static size_t put_utf8(char *to, int code) {
    if (code < 0x80) {
        to[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        to[0] = (char)(0xC0 | code >> 6);
        to[1] = (char)(0x80 | (code & 63));
        return 2;
    }
    to[0] = (char)(0xE0 | code >> 12);
    to[1] = (char)(0x80 | (code >> 6 & 63));
    to[2] = (char)(0x80 | (code & 63));
    return 3;
}

static char *parse_text(const char **at) {
    const char *end = ++*at;
    while (*end && *end != '"')
        end += *end == '\\' && end[1] ? 2 : 1;
    if (!*end)
        return NULL;
    char *text = malloc((size_t)(end - *at) + 1), *to = text;
    if (!text)
        return NULL;
    while (*at < end) {
        char next = *(*at)++;
        if (next != '\\') {
            *to++ = next;
            continue;
        }
        char escaped = *(*at)++;
        int code;
        switch (escaped) {
        case 'n': *to++ = '\n'; break;
        case 't': *to++ = '\t'; break;
        case 'r': *to++ = '\r'; break;
        case 'b': *to++ = '\b'; break;
        case 'f': *to++ = '\f'; break;
        case 'u':
            if (end - *at < 4 || (code = hex4(*at)) < 0) {
                free(text);
                return NULL;
            }
            *at += 4;
            to += put_utf8(to, code);
            break;
        default: *to++ = escaped;
        }
    }
    *to = 0;
    *at = end + 1;
    return text;
}

static int parse_members(const char **at, json *parent, char closing, int depth) {
    json **place = &parent->first;
    ++*at;
    skip_space(at);
    if (**at == closing)
        return ++*at, 1;
    for (;;) {
        char *key = NULL;
        skip_space(at);
        if (closing == '}') {
            if (**at != '"' || !(key = parse_text(at)))
                return 0;
            skip_space(at);
            if (**at != ':') {
                free(key);
                return 0;
            }
            ++*at;
        }
        json *value = parse_value(at, depth + 1);
        if (!value) {
            free(key);
            return 0;
        }
        value->key = key;
        *place = value;
        place = &value->next;
        skip_space(at);
        if (**at == closing)
            return ++*at, 1;
        if (**at != ',')
            return 0;
        ++*at;
    }
}

static int parse_word(const char **at, json *value) {
    static const struct { const char *word; enum json_type type; } words[] = {
        {"null", JSON_NULL}, {"false", JSON_FALSE}, {"true", JSON_TRUE}};
    for (size_t place = 0; place < 3; ++place) {
        size_t length = strlen(words[place].word);
        if (!strncmp(*at, words[place].word, length)) {
            value->type = words[place].type;
            *at += length;
            return 1;
        }
    }
    char *end, *fraction;
    value->type = JSON_NUMBER;
    value->number = strtoll(*at, &end, 10);
    if (end == *at)
        return 0;
    if (*end == '.' || *end == 'e' || *end == 'E') {
        value->number = (long long)strtod(*at, &fraction);
        end = fraction;
    }
    *at = end;
    return 1;
}

static json *parse_value(const char **at, int depth) {
    json *value = calloc(1, sizeof *value);
    int good = 0;
    if (!value || depth > DEEPEST) {
        free(value);
        return NULL;
    }
    skip_space(at);
    if (**at == '{') {
        value->type = JSON_OBJECT;
        good = parse_members(at, value, '}', depth);
    } else if (**at == '[') {
        value->type = JSON_LIST;
        good = parse_members(at, value, ']', depth);
    } else if (**at == '"') {
        value->type = JSON_TEXT;
        good = (value->text = parse_text(at)) != NULL;
    } else
        good = parse_word(at, value);
    if (good)
        return value;
    json_free(value);
    return NULL;
}

json *json_parse(const char *text) {
    json *value = parse_value(&text, 0);
    if (!value)
        return NULL;
    skip_space(&text);
    if (*text) {
        json_free(value);
        return NULL;
    }
    return value;
}

void json_free(json *value) {
    while (value) {
        json *next = value->next;
        json_free(value->first);
        free(value->key);
        free(value->text);
        free(value);
        value = next;
    }
}

const json *json_get(const json *object, const char *key) {
    if (!object || object->type != JSON_OBJECT)
        return NULL;
    for (const json *value = object->first; value; value = value->next)
        if (!strcmp(value->key, key))
            return value;
    return NULL;
}

const json *json_at(const json *list, size_t place) {
    if (!list || list->type != JSON_LIST)
        return NULL;
    const json *value = list->first;
    while (value && place--)
        value = value->next;
    return value;
}

size_t json_length(const json *list) {
    size_t length = 0;
    if (list && list->type == JSON_LIST)
        for (const json *value = list->first; value; value = value->next)
            ++length;
    return length;
}

long long json_number(const json *object, const char *key, long long otherwise) {
    const json *value = json_get(object, key);
    return value && value->type == JSON_NUMBER ? value->number : otherwise;
}

const char *json_text(const json *object, const char *key, const char *otherwise) {
    const json *value = json_get(object, key);
    return value && value->type == JSON_TEXT ? value->text : otherwise;
}

int json_is_true(const json *object, const char *key) {
    const json *value = json_get(object, key);
    return value && value->type == JSON_TRUE;
}

int json_has(const json *object, const char *key) {
    const json *value = json_get(object, key);
    return value && value->type != JSON_NULL;
}
