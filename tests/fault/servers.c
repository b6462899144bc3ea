/* servers.c - a primary, its standbys, and what leads clients to one of them. */
#include "servers.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test_pg_help.h"

#define PATIENCE_MS 60000
#define STEP_US 5000
#define BOUNCER_PORT 6432 /* of a Unix socket in a directory of its own: just a name */

/* ---- small things */

static void shell(const char *fmt, ...) PGT_PRINTF(1, 2);

static void shell(const char *fmt, ...)
{
    char command[2048];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(command, sizeof command, fmt, args);
    va_end(args);
    if (system(command) != 0) /* NOLINT(cert-env33-c): paths of our own */
        fail_msg("%s", command);
}

const char *srv_primary_dir(void)
{
    static char dir[120];

    if (!dir[0]) {
        (void)snprintf(dir, sizeof dir, "%s", pgt_env("HOWDAH_TEST_PG_DATA"));
        *strrchr(dir, '/') = '\0';
    }
    return dir;
}

const char *srv_port(void)
{
    static char text[16];
    const char *at = strstr(pgt_env("HOWDAH_TEST_PG"), "port=");

    assert_non_null(at);
    (void)snprintf(text, sizeof text, "%.*s", (int)strspn(at + 5, "0123456789"), at + 5);
    return text;
}

static void put_url(char *url, size_t size, const char *dir, const char *port_text)
{
    (void)snprintf(url, size, "postgres:///howdah_test?host=%s&port=%s&user=postgres", dir,
                   port_text);
}

/* The user that servers run as; NULL: we are not root, so it is us. */
static const struct passwd *server_user(void)
{
    const struct passwd *user = getpwnam("postgres");

    if (getuid() != 0)
        return NULL;
    return user ? user : getpwnam("nobody");
}

static void make_dir(char *dir, size_t size, const char *name)
{
    const struct passwd *user = server_user();

    (void)snprintf(dir, size, "%s/%s", srv_primary_dir(), name);
    assert_int_equal(mkdir(dir, 0755), 0);
    if (user)
        assert_int_equal(chown(dir, user->pw_uid, user->pw_gid), 0);
}

/* In a child: what is run next has that user's rights, ends with us, and has none of our files. */
static void become_server(const char *dir)
{
    const struct passwd *user = server_user();
    sigset_t none;
    int log;

    if (user && (setgroups(0, NULL) != 0 || setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0))
        _exit(126);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* forgotten when the user changes */
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (setsid() < 0 || chdir(dir) != 0)
        _exit(126);
    log = open("log", O_WRONLY | O_CREAT | O_APPEND, 0644);
    (void)dup2(log, STDOUT_FILENO);
    (void)dup2(log, STDERR_FILENO);
    for (int fd = 3; fd < 1024; fd++)
        (void)close(fd);
}

static pid_t start_child(void)
{
    pid_t pid;

    (void)fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    return pid;
}

/* Until it answers to this URL. */
static void wait_for_server(pid_t pid, const char *url, const char *what, const char *dir)
{
    int64_t until = pgt_now_ms() + PATIENCE_MS;

    while (PQping(url) != PQPING_OK) {
        int status = 0;

        if (waitpid(pid, &status, WNOHANG) != 0 || pgt_now_ms() > until)
            fail_msg("%s does not run (%d), see %s/log", what, status, dir);
        (void)usleep(STEP_US);
    }
}

static void end_child(pid_t *pid, int signal_no)
{
    if (*pid <= 0)
        return;
    (void)kill(*pid, signal_no);
    (void)waitpid(*pid, NULL, 0);
    *pid = 0;
}

/* One value of one statement on a session of its own; a static buffer. */
static const char *ask(const char *url, const char *sql)
{
    static char text[200];
    PGconn *conn = PQconnectdb(url);
    PGresult *result;

    if (PQstatus(conn) != CONNECTION_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(conn));
    result = PQexec(conn, sql);
    if (PQresultStatus(result) != PGRES_TUPLES_OK && PQresultStatus(result) != PGRES_COMMAND_OK)
        fail_msg("%s: %s", sql, PQresultErrorMessage(result));
    (void)snprintf(text, sizeof text, "%s", PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    PQfinish(conn);
    return text;
}

static void wait_until(const char *url, const char *sql, const char *answer)
{
    int64_t until = pgt_now_ms() + PATIENCE_MS;

    while (strcmp(ask(url, sql), answer) != 0) {
        if (pgt_now_ms() > until)
            fail_msg("not %s within a minute: %s", answer, sql);
        (void)usleep(STEP_US);
    }
}

/* ---- the primary */

void srv_primary_stop(void)
{
    pgt_ctl("stop -m immediate");
}

void srv_primary_start(void)
{
    if (PQping(pgt_env("HOWDAH_TEST_PG")) != PQPING_OK)
        pgt_ctl("start");
}

/* ---- a standby */

static void be_standby(const srv *s)
{
    char program[300];
    char data[200];
    char sockets[220];

    (void)snprintf(program, sizeof program, "%s/postgres", pgt_env("HOWDAH_TEST_PG_BIN"));
    (void)snprintf(data, sizeof data, "%s/data", s->dir);
    (void)snprintf(sockets, sizeof sockets, "unix_socket_directories=%s", s->dir);
    become_server(s->dir);
    /* By its path: it finds its libraries by that. */
    (void)execl(program, program, "-D", data, "-c", sockets, "-c", "listen_addresses=", "-c",
                "log_connections=on", NULL);
    _exit(127);
}

void srv_start(srv *s)
{
    assert_int_equal(s->pid, 0);
    s->pid = start_child();
    if (s->pid == 0)
        be_standby(s);
    wait_for_server(s->pid, s->url, "the standby", s->dir);
}

/* As pg_basebackup does it, which not every build of a server comes with. */
static void copy_primary(const srv *s)
{
    PGconn *conn = pgt_session(pgt_env("HOWDAH_TEST_PG"));
    bool old = PQserverVersion(conn) < 150000;
    char path[200];
    PGresult *label;
    FILE *file;

    PQclear(PQexec(conn, old ? "SELECT pg_start_backup('standby', true, false)"
                             : "SELECT pg_backup_start('standby', true)"));
    /* A file that vanishes meanwhile is none that is needed. */
    shell(
        "cp -a '%s' '%s/data' 2>/dev/null; cd '%s/data' && rm -f postmaster.pid postmaster.opts &&"
        " touch standby.signal backup_label && chown --reference=PG_VERSION standby.signal"
        " backup_label && echo"
        " \"primary_conninfo = 'host=%s port=%s user=postgres'\" >>postgresql.auto.conf",
        pgt_env("HOWDAH_TEST_PG_DATA"), s->dir, s->dir, srv_primary_dir(), srv_port());
    label = PQexec(conn, old ? "SELECT labelfile FROM pg_stop_backup(false, false)"
                             : "SELECT labelfile FROM pg_backup_stop(false)");
    if (PQntuples(label) != 1)
        fail_msg("no backup: %s", PQerrorMessage(conn));
    (void)snprintf(path, sizeof path, "%s/data/backup_label", s->dir);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(PQgetvalue(label, 0, 0), file) >= 0);
    assert_int_equal(fclose(file), 0);
    PQclear(label);
    PQfinish(conn);
}

srv *srv_standby_new(const char *name)
{
    srv *s = calloc(1, sizeof *s);

    assert_non_null(s);
    make_dir(s->dir, sizeof s->dir, name);
    put_url(s->url, sizeof s->url, s->dir, srv_port());
    copy_primary(s);
    srv_start(s);
    wait_until(s->url, "SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming'", "1");
    return s;
}

void srv_catch_up(const srv *s)
{
    char sql[200];

    (void)snprintf(sql, sizeof sql, "SELECT pg_last_wal_replay_lsn() >= '%s'",
                   ask(pgt_env("HOWDAH_TEST_PG"), "SELECT pg_current_wal_insert_lsn()"));
    wait_until(s->url, sql, "t");
}

void srv_cut_off(srv *s)
{
    (void)ask(s->url, "ALTER SYSTEM SET primary_conninfo = ''");
    (void)ask(s->url, "SELECT pg_reload_conf()");
    wait_until(s->url, "SELECT count(*) FROM pg_stat_wal_receiver", "0");
    s->cut_off = true;
}

void srv_pause_replay(const srv *s)
{
    (void)ask(s->url, "SELECT pg_wal_replay_pause()");
    if (strcmp(ask(s->url, "SHOW server_version_num"), "140000") >= 0)
        wait_until(s->url, "SELECT pg_get_wal_replay_pause_state()", "paused");
}

void srv_resume_replay(const srv *s)
{
    (void)ask(s->url, "SELECT pg_wal_replay_resume()");
}

void srv_promote(const srv *s)
{
    assert_string_equal(ask(s->url, "SELECT pg_promote(true, 60)"), "t");
    wait_until(s->url, "SELECT pg_is_in_recovery()", "f");
}

static int count_in_log(const srv *s, const char *text)
{
    char path[200];
    char line[2000];
    FILE *log;
    int n = 0;

    (void)snprintf(path, sizeof path, "%s/log", s->dir);
    log = fopen(path, "r");
    assert_non_null(log);
    while (fgets(line, sizeof line, log))
        n += strstr(line, text) != NULL;
    assert_int_equal(fclose(log), 0);
    return n;
}

void srv_wait_for_log(const srv *s, const char *text, int n)
{
    int64_t until = pgt_now_ms() + PATIENCE_MS;

    while (count_in_log(s, text) < n) {
        if (pgt_now_ms() > until)
            fail_msg("%s/log has not %d times within a minute: %s", s->dir, n, text);
        (void)usleep(STEP_US);
    }
}

void srv_stop(srv *s)
{
    end_child(&s->pid, SIGQUIT); /* immediate */
}

void srv_free(srv *s)
{
    if (!s)
        return;
    srv_stop(s);
    shell("rm -rf '%s'", s->dir);
    free(s);
}

/* ---- a front */

/* A new link in the place of the old one: there is no moment without any. */
void srv_front_to(const srv_front *front, const char *dir)
{
    char target[220];
    char made[220];
    char link[220];

    (void)snprintf(link, sizeof link, "%s/.s.PGSQL.%s", front->dir, srv_port());
    (void)snprintf(made, sizeof made, "%s/new", front->dir);
    if (!dir) {
        assert_true(unlink(link) == 0 || errno == ENOENT);
        return;
    }
    (void)snprintf(target, sizeof target, "%s/.s.PGSQL.%s", dir, srv_port());
    assert_int_equal(symlink(target, made), 0);
    assert_int_equal(rename(made, link), 0);
}

srv_front *srv_front_new(void)
{
    srv_front *front = calloc(1, sizeof *front);

    assert_non_null(front);
    make_dir(front->dir, sizeof front->dir, "front");
    put_url(front->url, sizeof front->url, front->dir, srv_port());
    srv_front_to(front, srv_primary_dir());
    return front;
}

void srv_front_free(srv_front *front)
{
    if (!front)
        return;
    shell("rm -rf '%s'", front->dir);
    free(front);
}

/* ---- a pooler */

static void write_ini(const srv_pooler *p, const char *dir)
{
    char path[200];
    FILE *ini;

    (void)snprintf(path, sizeof path, "%s/ini", p->dir);
    ini = fopen(path, "w");
    assert_non_null(ini);
    (void)fprintf(ini,
                  "[databases]\n"
                  "howdah_test = host=%s port=%s dbname=howdah_test user=postgres\n"
                  "[pgbouncer]\n"
                  "listen_addr =\n"
                  "listen_port = %d\n"
                  "unix_socket_dir = %s\n"
                  "auth_type = any\n"
                  "admin_users = postgres\n"
                  "pool_mode = transaction\n"
                  "default_pool_size = %d\n"
                  "server_round_robin = 1\n"
                  "server_login_retry = 1\n"
                  "max_client_conn = 200\n",
                  dir, srv_port(), BOUNCER_PORT, p->dir, p->pool);
    assert_int_equal(fclose(ini), 0);
}

/* A command of its console. */
static void tell(const srv_pooler *p, const char *command)
{
    char url[420];

    (void)snprintf(url, sizeof url, "host=%s port=%d dbname=pgbouncer user=postgres", p->dir,
                   BOUNCER_PORT);
    (void)ask(url, command);
}

srv_pooler *srv_pooler_new(const char *dir, int pool)
{
    srv_pooler *p = calloc(1, sizeof *p);
    char port_text[16];

    assert_non_null(p);
    p->pool = pool;
    make_dir(p->dir, sizeof p->dir, "pooler");
    (void)snprintf(port_text, sizeof port_text, "%d", BOUNCER_PORT);
    put_url(p->url, sizeof p->url, p->dir, port_text);
    write_ini(p, dir);
    p->pid = start_child();
    if (p->pid == 0) {
        become_server(p->dir);
        (void)execl("/usr/sbin/pgbouncer", "pgbouncer", "ini", NULL);
        (void)execlp("pgbouncer", "pgbouncer", "ini", NULL);
        _exit(127);
    }
    wait_for_server(p->pid, p->url, "pgbouncer (is the package installed?)", p->dir);
    return p;
}

void srv_pooler_to(const srv_pooler *p, const char *dir)
{
    write_ini(p, dir);
    tell(p, "RELOAD");
    tell(p, "RECONNECT");
}

void srv_pooler_free(srv_pooler *p)
{
    if (!p)
        return;
    end_child(&p->pid, SIGKILL);
    shell("rm -rf '%s'", p->dir);
    free(p);
}
