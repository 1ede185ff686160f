// The few things of OpenSSL that Swift cannot import: macros with arguments, and options wider than an int.
#pragma once
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

// Keys
#include <openssl/pkcs12.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

/// Keeps this process out of core dumps and away from ptrace by its own user. 0, or -1 with errno.
static inline int shim_forbid_dumps(void) {
#ifdef __linux__
  return prctl(PR_SET_DUMPABLE, 0L, 0L, 0L, 0L);
#else
  return 0;
#endif
}
