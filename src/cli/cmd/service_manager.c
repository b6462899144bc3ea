/*
 * service_manager.c - a socket that was passed, and a word to who has started us.
 *
 * Both are a few lines of a protocol that stays as it is (sd_listen_fds(3), sd_notify(3)), so no
 * library is needed for them.
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/cmd/serve.h"

#define FIRST_FD 3

/* The variables are for us alone: nobody whom we start is to take the socket for theirs. */
static void forget_sockets(void)
{
    (void)unsetenv("LISTEN_PID");
    (void)unsetenv("LISTEN_FDS");
    (void)unsetenv("LISTEN_FDNAMES");
}

static int check_socket(int fd, howdah_error *reterr)
{
    int listens = 0;
    socklen_t n = sizeof listens;

    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &n) < 0 || !listens)
        return hw_fail(reterr, HOWDAH_INVALID,
                       "LISTEN_FDS: descriptor 3 is no socket that listens");
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    return HOWDAH_OK;
}

int cli_listen_fd(int *ret_fd, howdah_error *reterr)
{
    const char *pid = getenv("LISTEN_PID");
    const char *fds = getenv("LISTEN_FDS");
    int64_t number = 0;
    int64_t n = 0;
    int s;

    *ret_fd = -1;
    if (!pid || !fds || !hw_parse_i64(pid, 1, INT64_MAX, &number) || number != getpid())
        return HOWDAH_OK;
    if (!hw_parse_i64(fds, 0, INT32_MAX, &n) || n > 1)
        return hw_fail(reterr, HOWDAH_INVALID, "LISTEN_FDS: one socket is taken, not more");
    forget_sockets();
    if (n == 0)
        return HOWDAH_OK;
    s = check_socket(FIRST_FD, reterr);
    if (s >= 0)
        *ret_fd = FIRST_FD;
    return s;
}

void cli_notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t n = path ? strlen(path) : 0;
    int fd;

    if (n < 2 || n >= sizeof address.sun_path || (path[0] != '/' && path[0] != '@'))
        return;
    memcpy(address.sun_path, path, n);
    if (path[0] == '@') /* in no folder */
        address.sun_path[0] = '\0';
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    (void)sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&address,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
    (void)close(fd);
}
