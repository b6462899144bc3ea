#include "suite.h"
static void nothing(void **state)
{
    (void)state;
}
ss_group ss_read_tests(void)
{
    static const struct CMUnitTest tests[] = {SS_TEST(nothing)};
    return SS_GROUP(tests);
}
