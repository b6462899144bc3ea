/*
 * fault.h - named points where a test can kill the process.
 *
 *     HW_FAULT_POINT("import.batch_committed");
 *
 * HOWDAH_FAILPOINT=import.batch_committed:kill kills the process (SIGKILL) the first
 * time it gets there, :kill@3 the third time.  Compiled away unless the build has
 * -Dfault_points=true.
 */
#ifndef HW_BASE_FAULT_H
#define HW_BASE_FAULT_H

#ifdef HOWDAH_FAULT_POINTS
void hw_fault_point(const char *name);
#define HW_FAULT_POINT(name) hw_fault_point(name)
#else
#define HW_FAULT_POINT(name) ((void)0)
#endif

#endif
