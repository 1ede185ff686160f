// The few lines of C that Swift cannot say.
// No feature macro is defined here: a `#define _GNU_SOURCE` in a header that Swift imports breaks
// ThreadSanitizer builds through Dispatch. The functions that need one are in CPlatform.c.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#ifdef __linux__
#include <sys/epoll.h>
#endif

// The arguments with which the system started the program, and how many they are; they live as long as the program.
char *_Nullable const *_Nonnull cplatform_arguments(int *_Nonnull count);

// The event loop that the calling thread runs, or NULL.
void *_Nullable cplatform_current_loop(void);
void cplatform_set_current_loop(void *_Nullable loop);

// Names the calling thread for debuggers and ps(1); cut to 15 bytes.
void cplatform_name_thread(const char *_Nonnull name);

// What poll(2) reports when the peer sends no more, besides what it always does; 0 where there is no such event.
short cplatform_poll_hangup(void);

// The flag of send(2) by which the kernel waits for what follows before it sends a packet; 0 without such a flag.
int cplatform_more_follows(void);

// accept(2) of a descriptor that is non-blocking and closed on exec from its first moment.
int cplatform_accept(int listener, struct sockaddr *_Nonnull address, socklen_t *_Nonnull length);

// The round trip of a TCP connection as the kernel has measured it, in microseconds; -1 if it has not.
long cplatform_round_trip(int connection);

// The milliseconds since the last data of a connection arrived, measured by the kernel; -1 if it has no such value.
long cplatform_milliseconds_since_data(int connection);

// Makes a listener ignore connection requests (TCP SYN) from now on; those already queued stay.
// 0, or -1 with errno where the platform has no socket filters.
int cplatform_drop_connection_requests(int listener);

// Has malloc take blocks of 256 KiB and more from the system one by one, and return them when they are freed.
void cplatform_return_large_blocks(void);

// Returns malloc's free pages to the system.
void cplatform_trim_heap(void);

// Memory functions in the form of nghttp2_mem, for one session: they keep in the 64 bits at `counter` the bytes of malloc
// that the session holds.
void *_Nullable cplatform_counted_malloc(size_t size, void *_Nullable counter);
void cplatform_counted_free(void *_Nullable memory, void *_Nullable counter);
void *_Nullable cplatform_counted_calloc(size_t count, size_t size, void *_Nullable counter);
void *_Nullable cplatform_counted_realloc(void *_Nullable memory, size_t size, void *_Nullable counter);

// The version of Landlock that the kernel offers (landlock(7)); 0 without it.
int cplatform_landlock_version(void);

// A ruleset that denies these accesses to files (LANDLOCK_ACCESS_FS_*) and scopes (LANDLOCK_SCOPE_*), as a descriptor;
// -1 with errno.
int cplatform_landlock_ruleset(uint64_t files, uint64_t scopes);

// Opens the place of a file or folder, without a right to read it (O_PATH, closed on exec). A descriptor, or -1 with
// errno.
int cplatform_open_place(const char *_Nonnull path);

// Allows accesses to an open file, or to all files below an open folder. 0, or -1 with errno.
int cplatform_landlock_allow(int ruleset, int path, uint64_t accesses);

// Enforces a ruleset on the calling thread, and on all threads that it creates. It needs no new privileges. 0, or -1
// with errno.
int cplatform_landlock_enforce(int ruleset);

// Gives up new privileges by execve(2), for the calling thread and all threads that it creates. 0, or -1 with errno.
int cplatform_no_new_privileges(void);

// An empty file in memory, closed on exec. A descriptor, or -1 with errno.
int cplatform_memory_file(void);

// pipe(2) with both ends closed on exec. 0, or -1 with errno.
int cplatform_pipe(int *_Nonnull ends);

// Starts the program at the path `arguments[0]` in a process group of its own, with no signal blocked or ignored. These
// streams become its descriptors 0 to 2, and it gets no others. 0, or an error number.
int cplatform_spawn(
    const char *_Nullable const *_Nonnull arguments, const char *_Nullable const *_Nonnull environment,
    const int *_Nonnull streams, int *_Nonnull process);

// The process groups that end with this process. Without a lock, so that a signal handler can end them. 16 at most: a
// signer runs one at a time, and each reload adds at most one. False if there are 16 already.
bool cplatform_group_began(int group);

// The group is one of them no more. Call it before its leader is reaped: the number may then be another's.
void cplatform_group_ended(int group);

// Sends SIGKILL to all of them. Async-signal-safe.
void cplatform_kill_groups(void);
