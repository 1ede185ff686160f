#define _GNU_SOURCE
#include "CLockedMemory.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// 64 KiB is what RLIMIT_MEMLOCK grants an unprivileged process on older systems. A key takes 3 KB, a signature 1.4 KB
// while it is made, reading a key 25 KB while it lasts.
//
// The region is divided so that threads that sign at the same time do not wait for each other: a signature takes and
// frees memory 41 times. The first part is the large one, for whatever does not fit into a small one.
enum { region_size = 65536, large_size = 32768, small_size = 8192, alignment = 16 };
enum { part_count = 1 + (region_size - large_size) / small_size };

// A block is its header and the bytes behind it. Free neighbours are always merged. Sizes include the header.
struct block {
  uint32_t size;
  // The size of the block before this one in memory; 0 for the first.
  uint32_t previous_size;
  uint32_t is_free;
  uint32_t unused;
  // Only in a free block, where the caller's bytes would be.
  struct block *next;
  struct block *previous;
};
enum { header_size = 16, smallest_block = sizeof(struct block) };
_Static_assert(offsetof(struct block, next) == header_size, "the links are where the caller's bytes would be");

// On cache lines of its own, or the locks of two parts would contend.
struct part {
  _Alignas(128) pthread_mutex_t mutex;
  struct block *free_blocks;
  char *end;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static enum locked_memory_state state = locked_memory_absent;
// Written once, before any pointer into the region exists.
static char *start = NULL;
static struct part parts[part_count];
static void *(*ordinary_malloc)(size_t size) = malloc;
static atomic_size_t overflows = 0;
static atomic_uint threads = 0;
// These are always a part of the program, never of a library that is loaded later, so no call has to find them.
#define OF_THREAD static _Thread_local __attribute__((tls_model("initial-exec")))
OF_THREAD unsigned depth = 0;
OF_THREAD int has_failed = 0;
// What OpenSSL holds of malloc's memory by calls of this thread: less than nothing if it frees what another has taken.
OF_THREAD long long openssl_bytes = 0;
static atomic_int is_openssl_counted = 0;
// The part that this thread tries first; 0 until it enters.
OF_THREAD unsigned own_part = 0;

static void wipe(void *memory, size_t size) {
  memset(memory, 0, size);
  // The compiler must not drop the memset because the memory is freed next.
  __asm__ __volatile__("" : : "r"(memory) : "memory");
}

// Without a region, `start` is NULL, and no memory of a process lies in its first 64 KiB.
static int is_inside(const void *memory) { return (uintptr_t)memory - (uintptr_t)start < region_size; }

static struct part *part_of(const void *memory) {
  size_t offset = (size_t)((const char *)memory - start);
  return &parts[offset < large_size ? 0 : 1 + (offset - large_size) / small_size];
}

// MARK: The blocks of a part, whose mutex is locked

static struct block *after(struct part *part, struct block *block) {
  char *end = (char *)block + block->size;
  return end < part->end ? (struct block *)end : NULL;
}

static void insert(struct part *part, struct block *block) {
  block->is_free = 1;
  block->previous = NULL;
  block->next = part->free_blocks;
  if (block->next) block->next->previous = block;
  part->free_blocks = block;
}

static void take_out(struct part *part, struct block *block) {
  block->is_free = 0;
  if (block->previous) block->previous->next = block->next; else part->free_blocks = block->next;
  if (block->next) block->next->previous = block->previous;
}

static void set_size(struct part *part, struct block *block, size_t size) {
  block->size = (uint32_t)size;
  struct block *next = after(part, block);
  if (next) next->previous_size = (uint32_t)size;
}

static void *allocate_block(struct part *part, size_t size) {
  size_t needed = (size + header_size + alignment - 1) / alignment * alignment;
  if (needed < smallest_block) needed = smallest_block;
  struct block *block = part->free_blocks;
  while (block && block->size < needed) block = block->next;
  if (!block) return NULL;
  take_out(part, block);
  size_t rest = block->size - needed;
  if (rest >= smallest_block) {
    block->size = (uint32_t)needed;
    struct block *remainder = after(part, block);
    remainder->previous_size = (uint32_t)needed;
    set_size(part, remainder, rest);
    insert(part, remainder);
  }
  return (char *)block + header_size;
}

static struct block *block_of(void *memory) { return (struct block *)((char *)memory - header_size); }

static size_t capacity(void *memory) { return block_of(memory)->size - header_size; }

static void free_block(struct part *part, struct block *block) {
  struct block *next = after(part, block);
  if (next && next->is_free) {
    take_out(part, next);
    set_size(part, block, block->size + next->size);
  }
  if (block->previous_size) {
    struct block *previous = (struct block *)((char *)block - block->previous_size);
    if (previous->is_free) {
      take_out(part, previous);
      set_size(part, previous, previous->size + block->size);
      block = previous;
    }
  }
  insert(part, block);
}

// MARK: The region

static void make_region(void) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  // A page that cannot be touched on either side: an overrun ends the process instead of reading or writing a key.
  char *all = mmap(NULL, region_size + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return;
  if (mprotect(all + page, region_size, PROT_READ | PROT_WRITE) != 0) {
    munmap(all, region_size + 2 * page);
    return;
  }
  state = mlock(all + page, region_size) == 0 ? locked_memory_locked : locked_memory_unlocked;
#ifdef MADV_DONTDUMP
  madvise(all + page, region_size, MADV_DONTDUMP);
#endif
  start = all + page;
  char *next = start;
  for (int index = 0; index < part_count; index += 1) {
    struct part *part = &parts[index];
    struct block *first = (struct block *)next;
    first->previous_size = 0;
    first->size = index == 0 ? large_size : small_size;
    next += first->size;
    part->end = next;
    pthread_mutex_init(&part->mutex, NULL);
    insert(part, first);
  }
}

static void look_for_sizes(void);

static void prepare(void) {
  make_region();
  look_for_sizes();
}

enum locked_memory_state locked_memory_prepare(void) {
  pthread_once(&once, prepare);
  return state;
}

size_t locked_memory_size(void) { return region_size; }

size_t locked_memory_overflows(void) { return atomic_load_explicit(&overflows, memory_order_relaxed); }

static void *allocate_inside(size_t size) {
  if (start == NULL || size > large_size - header_size) return NULL;
  for (unsigned offset = 0; offset < part_count; offset += 1) {
    struct part *part = &parts[(own_part + offset) % part_count];
    pthread_mutex_lock(&part->mutex);
    void *memory = allocate_block(part, size);
    pthread_mutex_unlock(&part->mutex);
    if (memory) return memory;
  }
  return NULL;
}

void *locked_memory_allocate(size_t size) {
  locked_memory_prepare();
  void *memory = allocate_inside(size);
  if (memory) return memory;
  atomic_fetch_add_explicit(&overflows, 1, memory_order_relaxed);
  return ordinary_malloc(size);
}

static void free_inside(void *memory) {
  // No other thread writes to the size of a block in use.
  wipe(memory, capacity(memory));
  struct part *part = part_of(memory);
  pthread_mutex_lock(&part->mutex);
  free_block(part, block_of(memory));
  pthread_mutex_unlock(&part->mutex);
}

void locked_memory_free(void *memory, size_t size) {
  if (!memory) return;
  if (is_inside(memory)) return free_inside(memory);
  wipe(memory, size);
  free(memory);
}

// MARK: OpenSSL

void locked_memory_enter(void) {
  if (own_part == 0) own_part = 1 + atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) % (part_count - 1);
  if (depth == 0) has_failed = 0;
  depth += 1;
}

void locked_memory_leave(void) { depth -= 1; }

int locked_memory_is_new_thread(void) { return own_part == 0; }

int locked_memory_take_failure(void) {
  int result = has_failed;
  has_failed = 0;
  return result;
}

void locked_memory_replace_malloc(void *(*allocate)(size_t size)) { ordinary_malloc = allocate; }

static void *noting_failure(void *memory) {
  if (!memory) has_failed = 1;
  return memory;
}

// glibc keeps the size of a block, this field included, before it, with flags in the lowest three bits (`chunk` in its
// malloc.c). Asking malloc_usable_size at each allocation would cost 2 % of a request over TLS.
static size_t size_before(void *memory) { return ((size_t *)memory)[-1] & ~(size_t)7; }

static size_t asked_size(void *memory) { return malloc_usable_size(memory) + sizeof(size_t); }

static int is_size_before = 0;

// Another allocator may have taken the place of glibc's (LD_PRELOAD), so a few blocks are looked at first.
static void look_for_sizes(void) {
#if defined(__GLIBC__) && !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)
  static const size_t sizes[] = {1, 24, 25, 100, 1000, 5000, 20000};
  int is_found = 1;
  for (size_t index = 0; index < sizeof sizes / sizeof *sizes; index += 1) {
    void *memory = malloc(sizes[index]);
    // The compiler knows what malloc returns, and that nothing is before it.
    __asm__ __volatile__("" : "+r"(memory));
    if (!memory || size_before(memory) != asked_size(memory)) is_found = 0;
    free(memory);
  }
  is_size_before = is_found;
#endif
}

// What malloc takes for a block.
static long long cost(void *memory) {
  return (long long)(is_size_before ? size_before(memory) : asked_size(memory));
}

static __attribute__((noinline)) void *allocate_asking(size_t size) {
  void *memory = ordinary_malloc(size);
  if (memory) openssl_bytes += cost(memory);
  return noting_failure(memory);
}

static __attribute__((noinline)) void *allocate_in_use(size_t size) {
  locked_memory_prepare();
  void *memory = allocate_inside(size);
  if (memory) return memory;
  atomic_fetch_add_explicit(&overflows, 1, memory_order_relaxed);
  return allocate_asking(size);
}

static __attribute__((noinline)) void free_slowly(void *memory) {
  openssl_bytes -= cost(memory);
  // It may have overflowed from the region.
  if (depth) wipe(memory, malloc_usable_size(memory));
  free(memory);
}

// OpenSSL calls the next two 1 800 times in a handshake, nearly always for memory outside of the region. So that path
// saves no register, and all others are functions of their own.

void *locked_memory_openssl_malloc(size_t size, const char *file, int line) {
  (void)file;
  (void)line;
  if (size == 0) return NULL;
  if (depth) return allocate_in_use(size);
  if (!is_size_before) return allocate_asking(size);
  void *memory = ordinary_malloc(size);
  if (!memory) return noting_failure(NULL);
  openssl_bytes += size_before(memory);
  return memory;
}

void locked_memory_openssl_free(void *memory, const char *file, int line) {
  (void)file;
  (void)line;
  if (!memory) return;
  if (is_inside(memory)) return free_inside(memory);
  if (depth || !is_size_before) return free_slowly(memory);
  openssl_bytes -= size_before(memory);
  free(memory);
}

void *locked_memory_openssl_realloc(void *memory, size_t size, const char *file, int line) {
  if (!memory) return locked_memory_openssl_malloc(size, file, line);
  if (size == 0) {
    locked_memory_openssl_free(memory, file, line);
    return NULL;
  }
  // What is in the region stays there, whichever thread makes it grow.
  if (!is_inside(memory) && !depth) {
    long long before = cost(memory);
    void *moved = noting_failure(realloc(memory, size));
    if (moved) openssl_bytes += cost(moved) - before;
    return moved;
  }
  size_t present = is_inside(memory) ? capacity(memory) : malloc_usable_size(memory);
  void *larger = allocate_in_use(size);
  if (!larger) return NULL;
  if (!is_inside(memory)) openssl_bytes -= cost(memory);
  memcpy(larger, memory, present < size ? present : size);
  if (is_inside(memory)) free_inside(memory); else locked_memory_free(memory, present);
  return larger;
}

void locked_memory_openssl_is_counted(void) { atomic_store_explicit(&is_openssl_counted, 1, memory_order_relaxed); }

int locked_memory_counts_openssl(void) { return atomic_load_explicit(&is_openssl_counted, memory_order_relaxed); }

long long locked_memory_openssl_bytes(void) { return openssl_bytes; }
