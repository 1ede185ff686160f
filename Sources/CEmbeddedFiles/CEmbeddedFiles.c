#include "CEmbeddedFiles.h"

#include <string.h>

// #embed is a part of C23, which this compiler offers in every version of the language.
#pragma clang diagnostic ignored "-Wc23-extensions"

// Each file is a text, so a zero byte ends it.
static const struct {
  const char *name;
  const uint8_t *bytes;
} files[] = {
    {"errors.json", (const uint8_t[]){
#embed "../MusicSandbox/Data/errors.json" suffix(, 0)
     }},
    {"types.json", (const uint8_t[]){
#embed "../MusicSandbox/Data/types.json" suffix(, 0)
     }},
    {"genres.json", (const uint8_t[]){
#embed "../MusicSandbox/Data/genres.json" suffix(, 0)
     }},
    {"storefronts.json", (const uint8_t[]){
#embed "../MusicSandbox/Data/storefronts.json" suffix(, 0)
     }},
    {"music.json", (const uint8_t[]){
#embed "../MusicSandbox/Data/music.json" suffix(, 0)
     }},
    {"lists.json", (const uint8_t[]){
#embed "../MusicSandbox/Data/lists.json" suffix(, 0)
     }},
    {"user.json", (const uint8_t[]){
#embed "../MusicSandbox/Data/user.json" suffix(, 0)
     }},
    {"page.html", (const uint8_t[]){
#embed "../WebFiles/Resources/page.html" suffix(, 0)
     }},
    {"page.css", (const uint8_t[]){
#embed "../WebFiles/Resources/page.css" suffix(, 0)
     }},
    {"icon.svg", (const uint8_t[]){
#embed "../WebFiles/Resources/icon.svg" suffix(, 0)
     }},
    {"page.js", (const uint8_t[]){
#embed "../WebFiles/Resources/page.js" suffix(, 0)
     }},
    {"dom.js", (const uint8_t[]){
#embed "../WebFiles/Resources/dom.js" suffix(, 0)
     }},
    {"api.js", (const uint8_t[]){
#embed "../WebFiles/Resources/api.js" suffix(, 0)
     }},
    {"token.js", (const uint8_t[]){
#embed "../WebFiles/Resources/token.js" suffix(, 0)
     }},
    {"access.js", (const uint8_t[]){
#embed "../WebFiles/Resources/access.js" suffix(, 0)
     }},
    {"snippets.js", (const uint8_t[]){
#embed "../WebFiles/Resources/snippets.js" suffix(, 0)
     }},
    {"catalog.js", (const uint8_t[]){
#embed "../WebFiles/Resources/catalog.js" suffix(, 0)
     }},
    {"user.js", (const uint8_t[]){
#embed "../WebFiles/Resources/user.js" suffix(, 0)
     }},
    {"live.js", (const uint8_t[]){
#embed "../WebFiles/Resources/live.js" suffix(, 0)
     }},
    {"/page/recipes/page.html", (const uint8_t[]){
#embed "../../docs/recipes/page.html" suffix(, 0)
     }},
    {"/page/recipes/node.mjs", (const uint8_t[]){
#embed "../../docs/recipes/node.mjs" suffix(, 0)
     }},
    {"/page/recipes/next.mjs", (const uint8_t[]){
#embed "../../docs/recipes/next.mjs" suffix(, 0)
     }},
    {"/page/recipes/recipe.go", (const uint8_t[]){
#embed "../../docs/recipes/recipe.go" suffix(, 0)
     }},
    {"/page/recipes/recipe.php", (const uint8_t[]){
#embed "../../docs/recipes/recipe.php" suffix(, 0)
     }},
    {"/page/recipes/recipe.py", (const uint8_t[]){
#embed "../../docs/recipes/recipe.py" suffix(, 0)
     }},
    {"/page/recipes/recipe.sh", (const uint8_t[]){
#embed "../../docs/recipes/recipe.sh" suffix(, 0)
     }},
    {"/page/recipes/recipe.swift", (const uint8_t[]){
#embed "../../docs/recipes/recipe.swift" suffix(, 0)
     }},
    {"/page/recipes/musickit.swift", (const uint8_t[]){
#embed "../../docs/recipes/musickit.swift" suffix(, 0)
     }},
    {"/page/recipes/recipe.kt", (const uint8_t[]){
#embed "../../docs/recipes/recipe.kt" suffix(, 0)
     }},
    {"openapi.json", (const uint8_t[]){
#embed "../WebFiles/Resources/openapi.json" suffix(, 0)
     }},
    {"musickit-token.js", (const uint8_t[]){
#embed "../WebFiles/Module/musickit-token.js" suffix(, 0)
     }},
    {"musickit-token.d.ts", (const uint8_t[]){
#embed "../WebFiles/Module/musickit-token.d.ts" suffix(, 0)
     }},
};

const uint8_t *cembedded_file(const char *name, size_t *count) {
  for (size_t index = 0; index < sizeof files / sizeof *files; index++) {
    if (strcmp(files[index].name, name) != 0) continue;
    *count = strlen((const char *)files[index].bytes);
    return files[index].bytes;
  }
  *count = 0;
  return NULL;
}
