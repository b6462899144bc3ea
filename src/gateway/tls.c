/* tls.c - see tls.h. */
#include "gateway/tls.h"

#include <fcntl.h>
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"

#define FILE_BYTES_MAX ((size_t)1024 * 1024)
#define CHAIN_MAX 16

typedef struct shown {
    struct shown *older;
    gnutls_pcert_st chain[CHAIN_MAX];
    unsigned chain_n;
    gnutls_privkey_t key;
} shown;

struct gw_tls {
    char *cert_file;
    char *key_file;
    _Atomic(shown *) newest; /* I1 */
};

static _Atomic(gw_tls *) present; /* I3 */

/* ---------------------------------------------------------------------- files */

static int check_mode(const char *field, const char *path, int fd, howdah_error *reterr)
{
    struct stat st;
    int s;

    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return hw_fail_field(reterr, HOWDAH_INVALID, field, "%s is not a file", path);
    if (strcmp(field, "tls-key") != 0 || (st.st_mode & (S_IROTH | S_IWOTH)) == 0)
        return HOWDAH_OK;
    s = hw_fail_field(reterr, HOWDAH_INVALID, field, "everybody may read %s", path);
    return hw_advise(reterr, s, "run: chmod o-rwx %s", path);
}

static int read_all(int fd, hw_buf *out)
{
    char block[4096];
    ssize_t n;

    while ((n = read(fd, block, sizeof block)) > 0)
        hw_buf_put(out, block, (size_t)n);
    return n < 0 ? -1 : 0;
}

static int read_file(const char *field, const char *path, hw_buf *out, howdah_error *reterr)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int s;

    if (fd < 0)
        return hw_fail_field(reterr, HOWDAH_INVALID, field, "cannot read %s: %m", path);
    s = check_mode(field, path, fd, reterr);
    if (s >= 0 && read_all(fd, out) < 0)
        s = hw_fail_field(reterr, HOWDAH_INVALID, field, "cannot read %s: %m", path);
    (void)close(fd);
    return s < 0 ? s : hw_buf_check(out, reterr);
}

/* --------------------------------------------------------------- certificates */

static void free_shown(shown *c)
{
    for (unsigned i = 0; i < c->chain_n; i++)
        gnutls_pcert_deinit(&c->chain[i]);
    if (c->key)
        gnutls_privkey_deinit(c->key);
    hw_free(c);
}

static int unfit(const char *field, int code, howdah_error *reterr)
{
    return hw_fail_field(reterr, HOWDAH_INVALID, field, "is of no use: %s", gnutls_strerror(code));
}

/* GnuTLS itself says whether the two belong together. */
static int check_pair(const gnutls_datum_t *cert, const gnutls_datum_t *key, howdah_error *reterr)
{
    gnutls_certificate_credentials_t both;
    int code = gnutls_certificate_allocate_credentials(&both);

    if (code < 0)
        return hw_fail_no_memory(reterr);
    code = gnutls_certificate_set_x509_key_mem(both, cert, key, GNUTLS_X509_FMT_PEM);
    gnutls_certificate_free_credentials(both);
    return code < 0 ? unfit("tls-cert", code, reterr) : HOWDAH_OK;
}

static int take(shown *c, const gnutls_datum_t *cert, const gnutls_datum_t *key,
                howdah_error *reterr)
{
    unsigned n = CHAIN_MAX;
    int code = gnutls_pcert_list_import_x509_raw(c->chain, &n, cert, GNUTLS_X509_FMT_PEM, 0);

    if (code < 0)
        return unfit("tls-cert", code, reterr);
    c->chain_n = n;
    code = gnutls_privkey_init(&c->key);
    if (code >= 0)
        code = gnutls_privkey_import_x509_raw(c->key, key, GNUTLS_X509_FMT_PEM, NULL, 0);
    return code < 0 ? unfit("tls-key", code, reterr) : HOWDAH_OK;
}

static int make(const hw_buf *cert, const hw_buf *key, shown **ret_shown, howdah_error *reterr)
{
    const gnutls_datum_t c = {(unsigned char *)cert->data, (unsigned)cert->len};
    const gnutls_datum_t k = {(unsigned char *)key->data, (unsigned)key->len};
    shown *made;
    int s = check_pair(&c, &k, reterr);

    if (s < 0)
        return s;
    made = hw_calloc(1, sizeof *made);
    if (!made)
        return hw_fail_no_memory(reterr);
    s = take(made, &c, &k, reterr);
    if (s < 0)
        free_shown(made);
    else
        *ret_shown = made;
    return s;
}

int gw_tls_reload(gw_tls *tls, howdah_error *reterr)
{
    hw_buf cert = HW_BUF_INIT(FILE_BYTES_MAX);
    hw_buf key = HW_BUF_INIT(FILE_BYTES_MAX);
    shown *made = NULL;
    int s = read_file("tls-cert", tls->cert_file, &cert, reterr);

    if (s >= 0)
        s = read_file("tls-key", tls->key_file, &key, reterr);
    if (s >= 0)
        s = make(&cert, &key, &made, reterr);
    if (s >= 0) {
        made->older = atomic_load(&tls->newest);
        atomic_store(&tls->newest, made);
    }
    if (key.data)
        gnutls_memset(key.data, 0, key.len);
    hw_buf_done(&key);
    hw_buf_done(&cert);
    return s;
}

/* ------------------------------------------------------------------ its life */

static int retrieve(gnutls_session_t session, const gnutls_datum_t *names, int names_n,
                    const gnutls_pk_algorithm_t *algorithms, int algorithms_n,
                    gnutls_pcert_st **ret_chain, unsigned *ret_n, gnutls_privkey_t *ret_key)
{
    gw_tls *tls = atomic_load(&present);
    shown *c = tls ? atomic_load(&tls->newest) : NULL;

    (void)session;
    (void)names;
    (void)names_n;
    (void)algorithms;
    (void)algorithms_n;
    if (!c)
        return -1;
    *ret_chain = c->chain;
    *ret_n = c->chain_n;
    *ret_key = c->key;
    return 0;
}

void *gw_tls_callback(void)
{
    gnutls_certificate_retrieve_function2 *callback = retrieve;
    void *pointer;

    memcpy(&pointer, &callback, sizeof pointer);
    return pointer;
}

int gw_tls_new(const char *cert_file, const char *key_file, gw_tls **ret_tls, howdah_error *reterr)
{
    gw_tls *tls = hw_calloc(1, sizeof *tls);
    int s;

    if (!tls)
        return hw_fail_no_memory(reterr);
    tls->cert_file = hw_strdup(cert_file);
    tls->key_file = hw_strdup(key_file);
    s = tls->cert_file && tls->key_file ? gw_tls_reload(tls, reterr) : hw_fail_no_memory(reterr);
    if (s < 0) {
        gw_tls_free(tls);
        return s;
    }
    atomic_store(&present, tls);
    *ret_tls = tls;
    return HOWDAH_OK;
}

void gw_tls_free(gw_tls *tls)
{
    gw_tls *own = tls;

    if (!tls)
        return;
    (void)atomic_compare_exchange_strong(&present, &own, NULL);
    for (shown *c = atomic_load(&tls->newest); c;) {
        shown *older = c->older;

        free_shown(c);
        c = older;
    }
    hw_free(tls->cert_file);
    hw_free(tls->key_file);
    hw_free(tls);
}
