#include "CWebFiles.h"

// #embed is a part of C23, which this compiler offers in every version of the language.
#pragma clang diagnostic ignored "-Wc23-extensions"

static const uint8_t page_html[] = {
#embed "../WebFiles/Resources/page.html"
};
static const uint8_t page_css[] = {
#embed "../WebFiles/Resources/page.css"
};
static const uint8_t icon_svg[] = {
#embed "../WebFiles/Resources/icon.svg"
};
static const uint8_t page_js[] = {
#embed "../WebFiles/Resources/page.js"
};
static const uint8_t dom_js[] = {
#embed "../WebFiles/Resources/dom.js"
};
static const uint8_t api_js[] = {
#embed "../WebFiles/Resources/api.js"
};
static const uint8_t token_js[] = {
#embed "../WebFiles/Resources/token.js"
};
static const uint8_t access_js[] = {
#embed "../WebFiles/Resources/access.js"
};
static const uint8_t snippets_js[] = {
#embed "../WebFiles/Resources/snippets.js"
};
static const uint8_t catalog_js[] = {
#embed "../WebFiles/Resources/catalog.js"
};
static const uint8_t user_js[] = {
#embed "../WebFiles/Resources/user.js"
};
static const uint8_t live_js[] = {
#embed "../WebFiles/Resources/live.js"
};
static const uint8_t musickit_token_js[] = {
#embed "../WebFiles/Resources/musickit-token.js"
};
static const uint8_t musickit_token_d_ts[] = {
#embed "../WebFiles/Resources/musickit-token.d.ts"
};

static const CWebFile files[] = {
    {"page.html", page_html, sizeof page_html},
    {"page.css", page_css, sizeof page_css},
    {"icon.svg", icon_svg, sizeof icon_svg},
    {"page.js", page_js, sizeof page_js},
    {"dom.js", dom_js, sizeof dom_js},
    {"api.js", api_js, sizeof api_js},
    {"token.js", token_js, sizeof token_js},
    {"access.js", access_js, sizeof access_js},
    {"snippets.js", snippets_js, sizeof snippets_js},
    {"catalog.js", catalog_js, sizeof catalog_js},
    {"user.js", user_js, sizeof user_js},
    {"live.js", live_js, sizeof live_js},
    {"musickit-token.js", musickit_token_js, sizeof musickit_token_js},
    {"musickit-token.d.ts", musickit_token_d_ts, sizeof musickit_token_d_ts},
};

int cwebfiles_count(void) { return sizeof files / sizeof *files; }

CWebFile cwebfiles_file(int index) { return files[index]; }
