// A preload under which threads of the tests and of the server pause now and then where another thread or process can see
// the difference: after one has released a lock, and after a system call on a socket or file. So a test meets in minutes
// what a slow machine shows once in a hundred runs.
//
//   PAUSES_ONE_IN   how many such moments have one pause (100)
//   PAUSES_LONGEST  the longest pause in milliseconds (20)
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static unsigned one_in = 100, longest = 20;
// Where the code of this program is; nowhere in another one, such as the browser.
static uintptr_t program_begin, program_end;

static int note_program(struct dl_phdr_info *object, size_t size, void *context) {
  (void)size, (void)context;
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *part = &object->dlpi_phdr[i];
    uintptr_t end = object->dlpi_addr + part->p_vaddr + part->p_memsz;
    if (part->p_type == PT_LOAD && end > program_end) program_end = end;
  }
  program_begin = object->dlpi_addr;
  return 1;  // The first object is the program itself.
}

__attribute__((constructor)) static void begin(void) {
  const char *text;
  if (strncmp(program_invocation_short_name, "musickit-token-server", 21) != 0) return;
  if ((text = getenv("PAUSES_ONE_IN"))) one_in = (unsigned)strtoul(text, 0, 10);
  if ((text = getenv("PAUSES_LONGEST"))) longest = (unsigned)strtoul(text, 0, 10);
  dl_iterate_phdr(note_program, 0);
}

static void pause_now_and_then(void *caller) {
  // Libraries take tens of thousands of locks before the first test.
  if ((uintptr_t)caller < program_begin || (uintptr_t)caller >= program_end) return;
  static _Thread_local uint64_t random;
  if (random == 0) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    random = ((uint64_t)now.tv_nsec << 32 ^ (uintptr_t)&random) | 1;
  }
  random ^= random << 13;
  random ^= random >> 7;
  random ^= random << 17;
  if ((uint32_t)random % one_in) return;
  int error = errno;
  poll(0, 0, 1 + (int)((random >> 32) % longest));
  errno = error;
}

#define PAUSING(result, name, parameters, arguments)                   \
  result name parameters {                                             \
    static result(*next) parameters;                                   \
    if (!next) next = (result(*) parameters)dlsym(RTLD_NEXT, #name);   \
    result value = next arguments;                                     \
    pause_now_and_then(__builtin_return_address(0));                   \
    return value;                                                      \
  }

PAUSING(int, pthread_mutex_unlock, (pthread_mutex_t *mutex), (mutex))
PAUSING(ssize_t, read, (int file, void *bytes, size_t count), (file, bytes, count))
PAUSING(ssize_t, write, (int file, const void *bytes, size_t count), (file, bytes, count))
PAUSING(ssize_t, recv, (int file, void *bytes, size_t count, int flags), (file, bytes, count, flags))
PAUSING(ssize_t, send, (int file, const void *bytes, size_t count, int flags), (file, bytes, count, flags))
PAUSING(ssize_t, sendmsg, (int file, const struct msghdr *message, int flags), (file, message, flags))
PAUSING(int, accept4, (int file, struct sockaddr *address, socklen_t *length, int flags), (file, address, length, flags))
PAUSING(int, epoll_wait, (int file, struct epoll_event *events, int count, int wait), (file, events, count, wait))
PAUSING(int, close, (int file), (file))
