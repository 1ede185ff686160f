// The files of Sources/MusicCatalog/Data, in the program. The C compiler embeds them: the Swift compiler takes half a
// minute for an array literal of that many elements.
#pragma once

#include <stddef.h>
#include <stdint.h>

// A file: its name, and its bytes, which live as long as the program.
typedef struct {
  const char *_Nonnull name;
  const uint8_t *_Nonnull bytes;
  size_t count;
} CCatalogFile;

// How many files there are.
int ccatalog_count(void);

// The file at an index from 0 to the count.
CCatalogFile ccatalog_file(int index);
