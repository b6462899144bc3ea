/*
 * metrics.c - howdah metrics: numbers for a monitor, without a gateway.
 *
 * With --output the file is whole at every moment: it is written under another name in the same
 * folder, and renamed.  A store that cannot be asked is a number as well, howdah_up 0; so the file
 * is written then, too, and the exit code says what is wrong.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "face/metrics.h"

/* A job that runs every few seconds must not meet the one before it. */
#define COLLECT_MS 30000

static int fail_file(const char *path, howdah_error *reterr)
{
    return hw_fail(reterr, HOWDAH_FAILED, "cannot write %s: %m", path);
}

/* Others than who writes it have to read it, as with any file that is made. */
static bool give_usual_rights(int fd)
{
    mode_t mask = umask(0);

    (void)umask(mask);
    return fchmod(fd, 0666 & ~mask) == 0;
}

static bool write_all(int fd, const hw_buf *text)
{
    size_t done = 0;

    while (done < text->len) {
        ssize_t n = write(fd, text->data + done, text->len - done);

        if (n < 0 && errno != EINTR)
            return false;
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* Its name ends in no ".prom" while it is not whole: nobody takes it for a file of numbers. */
static int replace(const char *path, char *temporary, const hw_buf *text, howdah_error *reterr)
{
    int fd = mkostemp(temporary, O_CLOEXEC);
    bool good;
    int s;

    if (fd < 0)
        return fail_file(temporary, reterr);
    good = give_usual_rights(fd) && write_all(fd, text) && fsync(fd) == 0;
    s = good ? HOWDAH_OK : fail_file(temporary, reterr);
    if (close(fd) < 0 && s == HOWDAH_OK)
        s = fail_file(temporary, reterr);
    if (s == HOWDAH_OK && rename(temporary, path) < 0)
        s = fail_file(path, reterr);
    if (s < 0)
        (void)unlink(temporary);
    return s;
}

static int write_file(const char *path, const hw_buf *text, howdah_error *reterr)
{
    hw_buf temporary = HW_BUF_INIT(8192);
    int s;

    hw_buf_printf(&temporary, "%s.XXXXXX", path);
    s = hw_buf_check(&temporary, reterr);
    if (s >= 0)
        s = replace(path, temporary.data, text, reterr);
    hw_buf_done(&temporary);
    return s;
}

/* NULL: the store is away. */
static int print(cli_context *cli, face_metrics_form form, const face_metrics *metrics,
                 howdah_error *reterr)
{
    const char *path = cli_args_text(&cli->args, "output");
    hw_buf text = HW_BUF_INIT(FACE_METRICS_BYTES_MAX);
    int s;

    face_metrics_print(&text, form, metrics);
    face_metrics_end(&text, form);
    s = hw_buf_check(&text, reterr);
    if (s >= 0 && path)
        s = write_file(path, &text, reterr);
    else if (s >= 0)
        cli_out_puts(&cli->out, hw_buf_str(&text));
    hw_buf_done(&text);
    return s;
}

/* What the user has to put right, or has ended, is no state of the store. */
static bool store_is_away(const howdah_error *err)
{
    return err->status != HOWDAH_INVALID && err->status != HOWDAH_MISUSE &&
           err->status != HOWDAH_INTERRUPTED;
}

static int run(cli_context *cli, howdah_error *reterr)
{
    face_metrics *metrics = NULL;
    howdah_error err = HOWDAH_ERROR_INIT;
    int form = FACE_METRICS_PROMETHEUS;
    int s = cli_args_words(&cli->args, 0, 0, reterr);

    if (s >= 0)
        s = cli_args_choice(&cli->args, "format", &form, reterr);
    if (s < 0)
        return s;
    s = cli_open(cli, &err);
    if (s >= 0)
        s = face_metrics_collect(cli->bus, COLLECT_MS, &metrics, &err);
    if (s >= 0)
        s = print(cli, (face_metrics_form)form, metrics, &err);
    else if (cli_args_has(&cli->args, "output") && store_is_away(&err))
        (void)print(cli, (face_metrics_form)form, NULL, NULL);
    face_metrics_free(metrics);
    if (s < 0)
        hw_error_copy(reterr, &err);
    return s;
}

int cmd_metrics(cli_context *cli, int argc, char **argv)
{
    howdah_error err = HOWDAH_ERROR_INIT;

    (void)argc;
    (void)argv;
    return run(cli, &err) < 0 ? cli_fail(cli, &err) : 0;
}
