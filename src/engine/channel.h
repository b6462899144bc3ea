/*
 * channel.h - the names under which the bell rings.
 *
 * {schema}_events is the general channel, {schema}_events_{type} that of a type, dots written as
 * underscores.  A name over 63 bytes (PostgreSQL would cut it, or refuse it) is cut, and ends with
 * eight digits of the MD5 of what it was, dots and all.  channel() in sql/pg/functions/bell.sql is
 * the same rule.  Different types may share a channel: the payload of a NOTIFY says which it is.
 */
#ifndef HW_ENGINE_CHANNEL_H
#define HW_ENGINE_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

#define HW_CHANNEL_SIZE 64

/* type absent: the general channel.  Both names have passed their rules.  false: no MD5 here. */
bool hw_channel_name(hw_str schema, hw_str type, char ret_name[HW_CHANNEL_SIZE]);

/* {schema}_control: for those who own or wait for a subscription, whatever they listen to. */
void hw_channel_control(hw_str schema, char ret_name[HW_CHANNEL_SIZE]);

/*
 * The bit of the bell's mark for those who sleep until an event of this type comes; type absent:
 * until any event comes.  Several types may share a bit, that costs a needless ring at most.
 */
int64_t hw_channel_bit(hw_str type);

#endif
