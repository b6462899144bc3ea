/* fuzz_urls.c - the line of a request: which route, which variables, which arguments. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "gateway/routes.h"
#include "gateway/url.h"

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void try_route(const char *method, const char *url)
{
    const char *mark = strchr(url, '?');
    hw_str path = {url, mark ? (size_t)(mark - url) : strlen(url)};
    hw_str vars[GW_VARS_MAX] = {HW_STR_NULL, HW_STR_NULL};
    char allowed[GW_ALLOWED_SIZE];
    howdah_error err = HOWDAH_ERROR_INIT;
    gw_request r;

    memset(&r, 0, sizeof r);
    r.route = gw_route_find(method, path, vars, allowed);
    must(strlen(allowed) < GW_ALLOWED_SIZE);
    if (!r.route)
        return;
    if (gw_url_decode(&r, hw_str_of(mark ? mark + 1 : ""), vars, &err) >= 0) {
        for (size_t i = 0; i < r.args_n; i++) {
            must(gw_word_is_listed(r.route->args, r.args[i].name));
            must(hw_utf8_valid(r.args[i].value, strlen(r.args[i].value)));
        }
        for (size_t i = 0; i < GW_VARS_MAX && vars[i].s; i++)
            must(r.vars[i] && hw_utf8_valid(r.vars[i], strlen(r.vars[i])));
    }
    hw_free(r.texts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const methods[] = {"GET", "POST", "PUT", "DELETE"};
    char *url;

    if (size < 1)
        return 0;
    url = malloc(size);
    if (!url)
        return 0;
    memcpy(url, data + 1, size - 1);
    url[size - 1] = '\0';
    try_route(methods[data[0] % 4], url);
    free(url);
    return 0;
}
