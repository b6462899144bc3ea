/*
 * worker.c - push some mails, and send them with four threads.
 *
 *     cc worker.c -o worker $(pkg-config --cflags --libs howdah)
 *     ./worker sqlite:mail.db                 until Ctrl-C
 *     ./worker sqlite:mail.db once            until nothing is left to do
 *
 * Mails to one person carry the same key: they are sent one at a time, in the order in which they
 * were pushed, also when one of them needs a second attempt.  Nobody else waits for that.
 */
#include <howdah/howdah.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static howdah_bus *bus;

static int failed(const char *what, const howdah_error *err)
{
    fprintf(stderr, "%s: %s: %s\n", what, howdah_status_name(err->status), err->message);
    return howdah_status_exit_code(err->status);
}

static void on_signal(int number)
{
    (void)number;
    howdah_interrupt(bus);
}

/* All of them or none. */
static int push_mails(howdah_error *err)
{
    static const char *const mails[][2] = {
        {"ann", "\"one\""}, {"ann", "\"two\""}, {"bob", "\"hello\""}, {"ann", "\"three\""}};
    enum { N = sizeof(mails) / sizeof(mails[0]) };
    howdah_new_job jobs[N];
    const howdah_new_job *list[N];

    for (size_t i = 0; i < N; i++) {
        jobs[i] = (howdah_new_job)HOWDAH_NEW_JOB_INIT;
        jobs[i].key = mails[i][0];
        jobs[i].data = mails[i][1];
        jobs[i].data_len = strlen(mails[i][1]);
        list[i] = &jobs[i];
    }
    return howdah_queue_push_batch(bus, "mail", list, N, NULL, err);
}

/*
 * Runs at least once for each job, in any of the threads.  The attempt was counted before it began:
 * a mail that kills its worker five times has failed, and does not come back.
 */
static int send_mail(void *ctx, const howdah_job *job, howdah_work *work)
{
    const char *text = howdah_job_data(job, NULL);

    (void)ctx;
    if (strcmp(text, "\"one\"") == 0 && howdah_job_attempt(job) == 1)
        return howdah_work_retry(work, 100, "the mail server is busy"); /* after 100 ms */
    printf("to %s: %s, attempt %" PRId64 "\n", howdah_job_key(job), text, howdah_job_attempt(job));
    return fflush(stdout) == 0 ? howdah_work_complete(work, "sent") : HOWDAH_WORK_FAILED;
}

/* Until there is nothing to do, or Ctrl-C; either way no mail is left behind half done. */
static int work(int once, howdah_error *err)
{
    howdah_worker_options options = HOWDAH_WORKER_OPTIONS_INIT;
    howdah_worker *worker = NULL;
    int s;

    options.queue = "mail";
    options.handler = send_mail;
    options.threads = 4;
    options.until_empty = once;
    s = howdah_worker_new(bus, &options, &worker, err);
    if (s < 0)
        return s;
    s = howdah_worker_run(worker, -1, err);
    if (s == HOWDAH_INTERRUPTED) {
        howdah_interrupt_clear(bus);
        s = howdah_worker_stop(worker, err);
    }
    howdah_worker_free(worker);
    return s;
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "sqlite:mail.db";
    int once = argc > 2 && strcmp(argv[2], "once") == 0;
    howdah_error err = HOWDAH_ERROR_INIT;
    struct sigaction action;
    int code = 0;

    if (howdah_open(url, NULL, &bus, &err) < 0)
        return failed("open", &err);
    memset(&action, 0, sizeof(action));
    action.sa_handler = on_signal;
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);

    if (howdah_migrate(bus, NULL, &err) < 0)
        code = failed("migrate", &err);
    else if (push_mails(&err) < 0)
        code = failed("push", &err);
    else if (work(once, &err) < 0)
        code = failed("work", &err);
    howdah_close(bus);
    return code;
}
