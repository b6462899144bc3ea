/* health.c - whether this process and its store are there, for those who watch over them. */
#include <string.h>

#include "base/clock.h"
#include "base/json_write.h"
#include "gateway/handlers.h"
#include "gateway/problem.h"
#include "gateway/server.h"

/* The process answers: that is all it says. */
int gw_healthz(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    (void)bus;
    (void)reterr;
    hw_buf_printf(&r->answer.body, "{\"status\":\"ok\",\"uptime_s\":%lld}\n",
                  (long long)((hw_clock_wall_us() - r->gateway->started_us) / 1000000));
    gw_answer_json(r, 200);
    return HOWDAH_OK;
}

static int on_step(void *ctx, const howdah_migration_info *step)
{
    bool *pending = ctx;

    *pending = *pending || step->applied_at_us == HOWDAH_NO_TIME || step->changed || step->unknown;
    return 0;
}

/* A missing part is the request's error, which names it: UNAVAILABLE, or SCHEMA. */
int gw_readyz(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    bool pending = false;
    int s;

    if (atomic_load(&r->gateway->stopping))
        return hw_fail(reterr, HOWDAH_UNAVAILABLE, "the gateway is being stopped");
    s = howdah_migrations_walk(bus, on_step, &pending, reterr);
    if (s >= 0 && pending) {
        s = hw_fail(reterr, HOWDAH_SCHEMA, "the schema is missing or of another version");
        return hw_advise(reterr, s, "run: howdah init");
    }
    if (s < 0)
        return s;
    hw_buf_puts(&r->answer.body, "{\"status\":\"ready\",\"store\":\"ok\",\"schema\":\"ok\"}\n");
    gw_answer_json(r, 200);
    return HOWDAH_OK;
}

int gw_version(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    (void)bus;
    (void)reterr;
    hw_buf_printf(&r->answer.body, "{\"name\":\"howdah\",\"version\":\"%s\",\"api\":\"v1\"}\n",
                  howdah_version());
    gw_answer_json(r, 200);
    return HOWDAH_OK;
}
