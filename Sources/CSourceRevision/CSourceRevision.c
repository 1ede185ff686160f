#include "CSourceRevision.h"

#ifndef SOURCE_REVISION
#define SOURCE_REVISION "development build"
#endif

const char *source_revision(void) { return SOURCE_REVISION; }
