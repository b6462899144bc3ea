/* mem.h - allocation through the caller's hook.  NULL on failure; sizes are checked for overflow.
 */
#ifndef HW_BASE_MEM_H
#define HW_BASE_MEM_H

#include <stddef.h>

#include <howdah/howdah.h>

void *hw_alloc(size_t bytes);
/* Zeroed; NULL when n * size overflows. */
void *hw_calloc(size_t n, size_t size);
void *hw_realloc(void *block, size_t bytes);
void hw_free(void *block);
char *hw_strdup(const char *text);
char *hw_strndup(const char *text, size_t len);

/* What howdah_allocator_set() calls. */
int hw_mem_set_allocator(const howdah_allocator *allocator);

#endif
