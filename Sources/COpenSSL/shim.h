// The few things of OpenSSL that Swift cannot import: macros with arguments, and options wider than an int.
#pragma once
#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

// A key pair on P-256 (a function with a variable number of arguments).
static inline EVP_PKEY *copenssl_generate_p256(void) {
  return EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
}

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

// TLS
// Swift sees each of these by the name that OpenSSL's manual uses: the C name only steps out of the macro's way.
#define COPENSSL_NAME(name) __attribute__((swift_name(name)))

static const uint64_t copenssl_op_cipher_server_preference COPENSSL_NAME("SSL_OP_CIPHER_SERVER_PREFERENCE") =
  SSL_OP_CIPHER_SERVER_PREFERENCE;
static const uint64_t copenssl_op_no_compression COPENSSL_NAME("SSL_OP_NO_COMPRESSION") = SSL_OP_NO_COMPRESSION;
static const uint64_t copenssl_op_no_renegotiation COPENSSL_NAME("SSL_OP_NO_RENEGOTIATION") = SSL_OP_NO_RENEGOTIATION;
static const uint64_t copenssl_op_prioritize_chacha COPENSSL_NAME("SSL_OP_PRIORITIZE_CHACHA") =
  SSL_OP_PRIORITIZE_CHACHA;

COPENSSL_NAME("SSL_CTX_set_mode(_:_:)")
static inline long copenssl_ctx_set_mode(SSL_CTX *context, long mode) {
  return SSL_CTX_set_mode(context, mode);
}

COPENSSL_NAME("SSL_CTX_set_min_proto_version(_:_:)")
static inline int copenssl_ctx_set_min_proto_version(SSL_CTX *context, int version) {
  return (int)SSL_CTX_set_min_proto_version(context, version);
}

COPENSSL_NAME("SSL_CTX_set1_groups_list(_:_:)")
static inline int copenssl_ctx_set1_groups_list(SSL_CTX *context, const char *groups) {
  return (int)SSL_CTX_set1_groups_list(context, groups);
}

COPENSSL_NAME("SSL_CTX_set_session_cache_mode(_:_:)")
static inline long copenssl_ctx_set_session_cache_mode(SSL_CTX *context, long mode) {
  return SSL_CTX_set_session_cache_mode(context, mode);
}

COPENSSL_NAME("SSL_CTX_set_max_cert_list(_:_:)")
static inline long copenssl_ctx_set_max_cert_list(SSL_CTX *context, long bytes) {
  return SSL_CTX_set_max_cert_list(context, bytes);
}

COPENSSL_NAME("SSL_CTX_add1_chain_cert(_:_:)")
static inline int copenssl_ctx_add1_chain_cert(SSL_CTX *context, X509 *certificate) {
  return (int)SSL_CTX_add1_chain_cert(context, certificate);
}

COPENSSL_NAME("SSL_CTX_get0_chain_certs(_:)")
static inline STACK_OF(X509) *copenssl_ctx_get0_chain_certs(SSL_CTX *context) {
  STACK_OF(X509) *chain = NULL;
  SSL_CTX_get0_chain_certs(context, &chain);
  return chain;
}

COPENSSL_NAME("SSL_CTX_set1_sigalgs_list(_:_:)")
static inline int copenssl_ctx_set1_sigalgs_list(SSL_CTX *context, const char *algorithms) {
  return (int)SSL_CTX_set1_sigalgs_list(context, algorithms);
}

// Makes a context of HMAC compute HMAC-SHA-256 with this key. 1 if it does.
static inline int copenssl_set_hmac_sha256(EVP_MAC_CTX *mac, unsigned char *key, size_t length) {
  char digest[] = "SHA256";
  OSSL_PARAM parameters[] = {
    OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, key, length),
    OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
    OSSL_PARAM_construct_end(),
  };
  return EVP_MAC_CTX_set_params(mac, parameters);
}

COPENSSL_NAME("SSL_set_msg_callback_arg(_:_:)")
static inline void copenssl_set_msg_callback_arg(SSL *ssl, void *argument) {
  SSL_set_msg_callback_arg(ssl, argument);
}

COPENSSL_NAME("SSL_set_tlsext_host_name(_:_:)")
static inline int copenssl_set_host_name(SSL *ssl, const char *name) {
  return (int)SSL_set_tlsext_host_name(ssl, name);
}

COPENSSL_NAME("SSL_set_min_proto_version(_:_:)")
static inline int copenssl_set_min_proto_version(SSL *ssl, int version) {
  return (int)SSL_set_min_proto_version(ssl, version);
}

COPENSSL_NAME("SSL_set_max_proto_version(_:_:)")
static inline int copenssl_set_max_proto_version(SSL *ssl, int version) {
  return (int)SSL_set_max_proto_version(ssl, version);
}

COPENSSL_NAME("SSL_set1_groups_list(_:_:)")
static inline int copenssl_set1_groups_list(SSL *ssl, const char *groups) {
  return (int)SSL_set1_groups_list(ssl, groups);
}
