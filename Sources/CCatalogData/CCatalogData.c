#include "CCatalogData.h"

// #embed is a part of C23, which this compiler offers in every version of the language.
#pragma clang diagnostic ignored "-Wc23-extensions"

static const uint8_t errors[] = {
#embed "../MusicCatalog/Data/errors.json"
};
static const uint8_t types[] = {
#embed "../MusicCatalog/Data/types.json"
};
static const uint8_t genres[] = {
#embed "../MusicCatalog/Data/genres.json"
};
static const uint8_t storefronts[] = {
#embed "../MusicCatalog/Data/storefronts.json"
};
static const uint8_t music[] = {
#embed "../MusicCatalog/Data/music.json"
};
static const uint8_t lists[] = {
#embed "../MusicCatalog/Data/lists.json"
};
static const uint8_t user[] = {
#embed "../MusicCatalog/Data/user.json"
};

static const CCatalogFile files[] = {
    {"errors.json", errors, sizeof errors},
    {"types.json", types, sizeof types},
    {"genres.json", genres, sizeof genres},
    {"storefronts.json", storefronts, sizeof storefronts},
    {"music.json", music, sizeof music},
    {"lists.json", lists, sizeof lists},
    {"user.json", user, sizeof user},
};

int ccatalog_count(void) { return sizeof files / sizeof *files; }

CCatalogFile ccatalog_file(int index) { return files[index]; }
