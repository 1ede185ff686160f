// Which sources the program was built from. It is C because the package manager passes text to C only.
#pragma once

// The commit and its date, such as "0123456789ab, 2026-11-22"; "development build" unless the build says
// (SOURCE_REVISION in Package.swift).
const char *_Nonnull source_revision(void);
