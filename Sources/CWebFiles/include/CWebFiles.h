// The files of Sources/WebFiles/Resources, in the program. The C compiler embeds them: for the Swift compiler they would be
// array literals of 96,000 elements.
#pragma once

#include <stddef.h>
#include <stdint.h>

// A file: its name, and its bytes, which live as long as the program.
typedef struct {
  const char *_Nonnull name;
  const uint8_t *_Nonnull bytes;
  size_t count;
} CWebFile;

// How many files there are.
int cwebfiles_count(void);

// The file at an index from 0 to the count.
CWebFile cwebfiles_file(int index);
