// Files in the program: what the emulator knows of Apple's API, and the files for browsers. The C compiler embeds them: the
// Swift compiler takes half a minute for an array literal of that many elements.
#pragma once

#include <stddef.h>
#include <stdint.h>

// Returns the bytes of the file with a name, which live as long as the program, and their number; NULL and 0 without one.
const uint8_t *_Nullable cembedded_file(const char *_Nonnull name, size_t *_Nonnull count);
