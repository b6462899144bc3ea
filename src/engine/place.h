/*
 * place.h - where a live tail stands, as a text that a client keeps and comes back with.
 *
 * A place says what was handed out: every number up to high, but for those outstanding.  It also
 * says of which log: some events of the way (anchors), and a hash of the log's name.  The text is
 *
 *     1.HIGH.LOG.N[.SEQUENCE.HASH]*[.GAP.MORE]*
 *
 * numbers to base 64 with dots between them.  N anchors come first, the newest one first.  Then the
 * outstanding ranges, ascending: GAP numbers lie between one and the next, besides the one that
 * keeps them apart, and a range has MORE numbers after its first.  So ranges that overlap, touch or
 * descend cannot be written down at all.
 *
 *   I1  A text comes from a client, and may say anything.  It is taken as a whole or refused; what
 *       is taken is bounded by the length of the text, and its parts fit each other.
 *   I2  One place has one text: of two that are the same the texts are.
 *   I3  A text has fewer than HOWDAH_PLACE_SIZE bytes.  Ranges that do not fit are joined, those
 *       with the least between them first: so events may come twice, and none is left out.
 *   I4  What is handed out is not proved by a place, and neither is its log: whoever goes on from
 *       one compares the anchors with the log that is there (bus/subscription/tail.c).
 */
#ifndef HW_ENGINE_PLACE_H
#define HW_ENGINE_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <howdah/howdah.h>

#include "base/str.h"
#include "engine/ranges.h"

#define HW_PLACE_ANCHORS 7

typedef struct hw_place_anchor {
    int64_t sequence;
    uint64_t hash; /* of the event's id: hw_place_hash() */
} hw_place_anchor;

struct howdah_place {
    int64_t high;
    uint64_t log;                              /* hw_place_hash() of its name */
    hw_place_anchor anchors[HW_PLACE_ANCHORS]; /* descending, none above high */
    size_t anchors_n;
    hw_ranges outstanding; /* within 1..high */
};

#define HW_PLACE_INIT                                                                              \
    {                                                                                              \
        0, 0, {{0, 0}}, 0, HW_RANGES_INIT                                                          \
    }

void hw_place_done(howdah_place *place);
/* The same on every machine; 48 bits. */
uint64_t hw_place_hash(const void *bytes, size_t n);

/* Errors: INVALID, which names the rule and the length, NO_MEMORY; then *place is as it was. */
int hw_place_parse(hw_str text, howdah_place *place, howdah_error *reterr);
/* With its NUL; returns its length.  Joins outstanding as far as it has to (I3). */
size_t hw_place_write(howdah_place *place, char ret_text[HOWDAH_PLACE_SIZE]);
/* At most "most" ranges, which have all numbers of the set; returns how many.  most > 0; out has
   room for so many, or is the set's own. */
size_t hw_place_join(hw_range *out, const hw_ranges *set, size_t most);

#endif
