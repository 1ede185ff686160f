#define _GNU_SOURCE
#include "CPlatform.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/filter.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

static int argument_count = 0;
static char *no_arguments[] = {NULL};
static char *const *arguments = no_arguments;

// glibc's and macOS's loaders pass a constructor what main gets.
__attribute__((constructor)) static void keep_arguments(int count, char **values) {
  argument_count = count;
  arguments = values;
}

char *const *cplatform_arguments(int *count) {
  *count = argument_count;
  return arguments;
}

static _Thread_local void *current_loop = NULL;

void *cplatform_current_loop(void) { return current_loop; }
void cplatform_set_current_loop(void *loop) { current_loop = loop; }

void cplatform_name_thread(const char *name) {
#ifdef __linux__
  char text[16] = {0};
  strncpy(text, name, sizeof text - 1);
  pthread_setname_np(pthread_self(), text);
#else
  (void)name;
#endif
}

int cplatform_more_follows(void) {
#ifdef MSG_MORE
  return MSG_MORE;
#else
  return 0;
#endif
}

short cplatform_poll_hangup(void) {
#ifdef POLLRDHUP
  return POLLRDHUP;
#else
  return 0;
#endif
}

int cplatform_accept(int listener, struct sockaddr *address, socklen_t *length) {
#ifdef __linux__
  return accept4(listener, address, length, SOCK_NONBLOCK | SOCK_CLOEXEC);
#else
  int descriptor = accept(listener, address, length);
  if (descriptor < 0) return -1;
  if (fcntl(descriptor, F_SETFD, FD_CLOEXEC) < 0 || fcntl(descriptor, F_SETFL, O_NONBLOCK) < 0) {
    int reason = errno;
    close(descriptor);
    errno = reason;
    return -1;
  }
  return descriptor;
#endif
}

#ifdef __linux__
// tcp(7). 0 without a TCP connection.
static int read_info(int connection, struct tcp_info *info) {
  socklen_t length = sizeof *info;
  memset(info, 0, sizeof *info);
  return getsockopt(connection, IPPROTO_TCP, TCP_INFO, info, &length) == 0;
}
#endif

long cplatform_round_trip(int connection) {
#ifdef __linux__
  struct tcp_info info;
  if (read_info(connection, &info) && info.tcpi_rtt > 0) return (long)info.tcpi_rtt;
#else
  (void)connection;
#endif
  return -1;
}

long cplatform_milliseconds_since_data(int connection) {
#ifdef __linux__
  struct tcp_info info;
  if (read_info(connection, &info)) return (long)info.tcpi_last_data_recv;
#else
  (void)connection;
#endif
  return -1;
}

int cplatform_drop_connection_requests(int listener) {
#ifdef __linux__
  // Classic BPF over the TCP header: byte 13 holds the flags; a segment with SYN set is dropped, any other kept.
  struct sock_filter program[] = {
      {BPF_LD | BPF_B | BPF_ABS, 0, 0, 13},
      {BPF_ALU | BPF_AND | BPF_K, 0, 0, 2},
      {BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 0},
      {BPF_RET | BPF_K, 0, 0, 0},
      {BPF_RET | BPF_K, 0, 0, 0xffffffff},
  };
  struct sock_fprog filter = {sizeof(program) / sizeof(program[0]), program};
  return setsockopt(listener, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter));
#else
  (void)listener;
  errno = ENOTSUP;
  return -1;
#endif
}

#ifdef __linux__
// The numbers and structures of the kernel, which the system's headers may not have yet. The numbers are the same on
// all architectures.
enum { landlock_create_ruleset = 444, landlock_add_rule = 445, landlock_restrict_self = 446 };

struct ruleset_attributes {
  uint64_t handled_access_fs, handled_access_net, scoped;
};

struct path_beneath_attributes {
  uint64_t allowed_access;
  int32_t parent;
} __attribute__((packed));

int cplatform_landlock_version(void) {
  int version = (int)syscall(landlock_create_ruleset, NULL, 0, 1);
  return version > 0 ? version : 0;
}

int cplatform_landlock_ruleset(uint64_t files, uint64_t scopes) {
  // An older kernel takes a longer structure if the bytes that it does not know are zero.
  struct ruleset_attributes attributes = {files, 0, scopes};
  return (int)syscall(landlock_create_ruleset, &attributes, sizeof attributes, 0);
}

int cplatform_open_place(const char *path) { return open(path, O_PATH | O_CLOEXEC); }

int cplatform_landlock_allow(int ruleset, int path, uint64_t accesses) {
  enum { path_beneath = 1 };
  struct path_beneath_attributes attributes = {accesses, path};
  return (int)syscall(landlock_add_rule, ruleset, path_beneath, &attributes, 0);
}

int cplatform_landlock_enforce(int ruleset) { return (int)syscall(landlock_restrict_self, ruleset, 0); }

int cplatform_no_new_privileges(void) { return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); }
#else
int cplatform_landlock_version(void) { return 0; }

int cplatform_landlock_ruleset(uint64_t files, uint64_t scopes) {
  (void)files, (void)scopes;
  errno = ENOSYS;
  return -1;
}

int cplatform_open_place(const char *path) {
  (void)path;
  errno = ENOSYS;
  return -1;
}

int cplatform_landlock_allow(int ruleset, int path, uint64_t accesses) {
  (void)ruleset, (void)path, (void)accesses;
  errno = ENOSYS;
  return -1;
}

int cplatform_landlock_enforce(int ruleset) {
  (void)ruleset;
  errno = ENOSYS;
  return -1;
}

int cplatform_no_new_privileges(void) {
  errno = ENOSYS;
  return -1;
}
#endif

#ifdef __GLIBC__
#include <malloc.h>

void cplatform_return_large_blocks(void) {
    // To set either also ends the automatic growth of both (mallopt(3)).
    mallopt(M_MMAP_THRESHOLD, 256 * 1024);
    mallopt(M_TRIM_THRESHOLD, 1024 * 1024);
}

void cplatform_trim_heap(void) { malloc_trim(0); }
#else
void cplatform_return_large_blocks(void) {}
void cplatform_trim_heap(void) {}
#endif

enum { most_groups = 16 };
static atomic_int groups[most_groups];

bool cplatform_group_began(int group) {
  for (int place = 0; place < most_groups; place++) {
    int none = 0;
    if (atomic_compare_exchange_strong(&groups[place], &none, group)) return true;
  }
  return false;
}

void cplatform_group_ended(int group) {
  for (int place = 0; place < most_groups; place++) {
    int present = group;
    if (atomic_compare_exchange_strong(&groups[place], &present, 0)) return;
  }
}

void cplatform_kill_groups(void) {
  for (int place = 0; place < most_groups; place++) {
    int group = atomic_load(&groups[place]);
    if (group > 0) kill(-group, SIGKILL);
  }
}

#ifdef __linux__
int cplatform_memory_file(void) { return memfd_create("input", MFD_CLOEXEC); }

int cplatform_pipe(int *ends) { return pipe2(ends, O_CLOEXEC); }

int cplatform_spawn(
    const char *const *arguments, const char *const *environment, const int *streams, int *process) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  int error = posix_spawn_file_actions_init(&actions);
  if (error) return error;
  error = posix_spawnattr_init(&attributes);
  if (error) {
    posix_spawn_file_actions_destroy(&actions);
    return error;
  }
  for (int stream = 0; stream < 3 && !error; stream++) {
    error = posix_spawn_file_actions_adddup2(&actions, streams[stream], stream);
  }
  if (!error) error = posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  if (!error) error = posix_spawnattr_setsigdefault(&attributes, &all);
  if (!error) error = posix_spawnattr_setsigmask(&attributes, &none);
  if (!error) {
    error = posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  }
  if (!error) {
    error = posix_spawn(
        process, arguments[0], &actions, &attributes, (char *const *)arguments, (char *const *)environment);
  }
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}
#else
int cplatform_memory_file(void) {
  errno = ENOSYS;
  return -1;
}

int cplatform_pipe(int *ends) {
  (void)ends;
  errno = ENOSYS;
  return -1;
}

int cplatform_spawn(
    const char *const *arguments, const char *const *environment, const int *streams, int *process) {
  (void)arguments, (void)environment, (void)streams, (void)process;
  return ENOSYS;
}
#endif

// Each block begins with what malloc takes for it, so that counting costs a few instructions; asking malloc costs sixteen
// for each call, 3 % of a request. Nothing in nghttp2 needs an alignment of more than eight bytes.
struct counted {
  uint64_t cost;
  char memory[];
};

// Malloc's own header, and its sizes in steps of 16.
static uint64_t cost_of(size_t size) { return ((size | 1) + sizeof(struct counted) + sizeof(size_t) + 15) & ~(uint64_t)15; }

static struct counted *block_of(void *memory) { return (struct counted *)((char *)memory - sizeof(struct counted)); }

static void *count(struct counted *block, size_t size, void *counter) {
  if (!block) return NULL;
  block->cost = cost_of(size);
  *(int64_t *)counter += (int64_t)block->cost;
  return block->memory;
}

void *cplatform_counted_malloc(size_t size, void *counter) {
  if (size > SIZE_MAX / 2) return NULL;
  return count(malloc(size + sizeof(struct counted)), size, counter);
}

void cplatform_counted_free(void *memory, void *counter) {
  if (!memory) return;
  struct counted *block = block_of(memory);
  *(int64_t *)counter -= (int64_t)block->cost;
  free(block);
}

void *cplatform_counted_calloc(size_t number, size_t size, void *counter) {
  size_t bytes;
  if (__builtin_mul_overflow(number, size, &bytes) || bytes > SIZE_MAX / 2) return NULL;
  return count(calloc(1, bytes + sizeof(struct counted)), bytes, counter);
}

void *cplatform_counted_realloc(void *memory, size_t size, void *counter) {
  if (!memory) return cplatform_counted_malloc(size, counter);
  if (size > SIZE_MAX / 2) return NULL;
  int64_t before = (int64_t)block_of(memory)->cost;
  void *moved = count(realloc(block_of(memory), size + sizeof(struct counted)), size, counter);
  if (moved) *(int64_t *)counter -= before;
  return moved;
}
