// One region of locked memory for the MusicKit key, and the memory functions that let OpenSSL use it.
//
// OpenSSL has a secure heap of its own, but it serves the whole process once it is set up: each open TLS 1.3 connection
// then keeps an ephemeral key in it until the connection closes, and a few thousand connections exhaust it. Without that
// heap OpenSSL takes secrets from its ordinary memory functions. These functions take from the region what a thread
// allocates while it works with the key, and everything else from malloc(3).
#pragma once

#include <stddef.h>

// What became of the region.
enum locked_memory_state {
  locked_memory_locked = 0,
  // It exists, but mlock(2) or mprotect(2) failed: the system may write it to swap.
  locked_memory_unlocked = 1,
  // There is no region: secrets are in ordinary memory.
  locked_memory_absent = 2,
};

// Makes the region, on the first call. The state is the same on each call.
enum locked_memory_state locked_memory_prepare(void);

// Bytes of the region.
size_t locked_memory_size(void);

// Memory from the region, or from malloc(3) if the region is full; NULL if both fail.
void *_Nullable locked_memory_allocate(size_t size);

// Wipes `size` bytes of what locked_memory_allocate returned, and frees it.
void locked_memory_free(void *_Nullable memory, size_t size);

// Between these two calls OpenSSL's allocations of the calling thread come from the region. They nest.
void locked_memory_enter(void);
void locked_memory_leave(void);

// Whether the calling thread has not entered before: OpenSSL has yet to make what it keeps for each thread.
int locked_memory_is_new_thread(void);

// How many allocations came from malloc(3) because the region was full.
size_t locked_memory_overflows(void);

// Whether OpenSSL has asked for memory in vain on the calling thread since the last call or since the thread entered.
// OpenSSL's own errors do not always say so.
int locked_memory_take_failure(void);

// For tests: what takes the place of malloc(3).
void locked_memory_replace_malloc(void *_Nullable (*_Nonnull allocate)(size_t size));

// The three for CRYPTO_set_mem_functions.
void *_Nullable locked_memory_openssl_malloc(size_t size, const char *_Nullable file, int line);
void *_Nullable locked_memory_openssl_realloc(
  void *_Nullable memory, size_t size, const char *_Nullable file, int line);
void locked_memory_openssl_free(void *_Nullable memory, const char *_Nullable file, int line);

// The bytes of malloc's memory that OpenSSL has taken by calls of this thread, less those that it has freed by them. The
// difference over a call is what the call has added to the object that it worked on, except for what OpenSSL keeps for
// the process.
long long locked_memory_openssl_bytes(void);

// Says that the three functions are in use; whether they are.
void locked_memory_openssl_is_counted(void);
int locked_memory_counts_openssl(void);
