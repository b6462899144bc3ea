/*
 * tls.h - the certificate that the gateway shows.
 *
 *   I1  A certificate that was read stays until the gateway ends: a handshake that has begun may be
 *       using it.  Connections that are open go on after another one was read.
 *   I2  Files that cannot be used change nothing: the certificate of before stays.
 *   I3  libmicrohttpd asks for it without saying on whose behalf, so a process has one gateway with
 *       TLS at a time.
 */
#ifndef HW_GATEWAY_TLS_H
#define HW_GATEWAY_TLS_H

#include <howdah/howdah.h>

typedef struct gw_tls gw_tls;

/* TLS 1.2 and 1.3, and what GnuTLS thinks is good of them. */
#define GW_TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

/* Errors: INVALID (files that are missing, unfit, or a key that everybody may read). */
int gw_tls_new(const char *cert_file, const char *key_file, gw_tls **ret_tls, howdah_error *reterr);
int gw_tls_reload(gw_tls *tls, howdah_error *reterr);
void gw_tls_free(gw_tls *tls);
/* For MHD_OPTION_HTTPS_CERT_CALLBACK. */
void *gw_tls_callback(void);

#endif
