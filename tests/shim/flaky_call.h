/*
 * flaky_call.h - one operation on its way through the failing store; shared by its files.
 *
 *     hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);
 *
 *     if (c.status >= 0)
 *         (void)hw_flaky_end(&c, c.inner->ops->...(c.inner, ..., reterr));
 *     return c.status;
 */
#ifndef HW_STORE_SHIM_FLAKY_CALL_H
#define HW_STORE_SHIM_FLAKY_CALL_H

#include "flaky.h"

typedef enum hw_flaky_effect { HW_FLAKY_READS, HW_FLAKY_WRITES } hw_flaky_effect;

typedef struct hw_flaky_call {
    hw_store *inner;
    howdah_error *reterr;
    hw_flaky_effect what;
    hw_flaky_mode mode;
    int status;
} hw_flaky_call;

/* Counts the operation, and fails it if the plan says so; HW_FLAKY_OP_ANY: of no kind. */
hw_flaky_call hw_flaky_begin_op(hw_store *store, hw_flaky_effect what, hw_flaky_op op,
                                howdah_error *reterr);
hw_flaky_call hw_flaky_begin(hw_store *store, hw_flaky_effect what, howdah_error *reterr);
/* What the inner store said, or the failure behind it. */
int hw_flaky_end(hw_flaky_call *c, int status);
hw_store *hw_flaky_inner(hw_store *store);
/* The cursor over one of the inner store, which it takes over, also when the status is a failure.
 */
int hw_flaky_cursor(hw_store *store, hw_cursor *inner, int status, hw_cursor **ret_cursor,
                    howdah_error *reterr);

/* flaky_subscriptions.c */
extern const hw_sub_ops hw_flaky_sub_ops;
/* flaky_queue.c */
extern const hw_queue_ops hw_flaky_queue_ops;
/* flaky_groups.c */
extern const hw_group_ops hw_flaky_group_ops;
/* flaky_times.c */
extern const hw_times_ops hw_flaky_times_ops;
/* flaky_registry.c */
extern const hw_registry_ops hw_flaky_registry_ops;

#endif
