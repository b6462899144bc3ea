/*
 * signals.h - Ctrl-C and its kin end the command cleanly.
 *
 * While a bus is watched, a signal interrupts it: the call that runs returns HOWDAH_INTERRUPTED,
 * and the command ends by its normal way out.  Without one (connecting, or waiting for input)
 * nothing needs cleaning up and the process exits at once.  The exit code is 128 + signal either
 * way; 0 for a service and SIGTERM.  A second signal kills, also the command that runs for us;
 * where batches have to be given back first, it kills the command at once and us after a few
 * seconds.
 */
#ifndef HW_CLI_IN_SIGNALS_H
#define HW_CLI_IN_SIGNALS_H

#include <howdah/howdah.h>
#include <stdbool.h>
#include <sys/types.h>

void cli_signals_init(void);
/* The bus to interrupt; NULL: none. */
void cli_signals_watch(howdah_bus *bus);
/* A process group that runs for us has begun, and has ended.  From any thread. */
#define CLI_CHILDREN_MAX 256
void cli_signals_child(pid_t group);
void cli_signals_child_gone(pid_t group);
/* The signal that was caught, 0 when there was none. */
int cli_signal_caught(void);
/* SIGTERM is how this command is asked to end, whether it has begun by then or not. */
void cli_signals_service(void);
/* A second signal leaves us this long, in seconds. */
void cli_signals_grace(unsigned seconds);
/* There was a second one. */
bool cli_signals_hurry(void);
/* Of the signal that was caught. */
int cli_signals_exit_code(void);

#endif
