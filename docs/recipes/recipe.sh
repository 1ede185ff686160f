# The file ~/.musickit-key, which only you can read, has one line: header = "Authorization: Bearer mkts_…"
# The client's settings: { id: "backend", apiKey: { sha256: "<from new-api-key>" } }

# Prints a valid token, and keeps it in a file that only you can read.
developer_token() (
  umask 077
  file=$HOME/.musickit-token
  member() { sed -n "s/.*\"$1\":\"*\([^\",}]*\).*/\1/p" "$file"; }
  if [ ! -s "$file" ] || [ "$(date +%s)" -ge "$(member refreshAfter)" ]; then
    curl -sS --max-time 5 --fail-with-body -K ~/.musickit-key https://tokens.example.com/token >"$file.new" &&
      mv "$file.new" "$file" || cat "$file.new" >&2 # says what is wrong
  fi
  [ -s "$file" ] && [ "$(date +%s)" -lt "$(member expiresAt)" ] && member token
)

TOKEN=$(developer_token) &&
  curl -i -H "Authorization: Bearer $TOKEN" https://api.music.apple.com/v1/test # 200: Apple accepts the token
