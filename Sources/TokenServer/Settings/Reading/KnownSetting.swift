/// What is known of a setting without its value's type: enough to find it, and to document it.
struct KnownSetting: Sendable {
  let path: String
  let isList: Bool
  let isSecret: Bool
  /// Its default as one writes it in JSON5; nil if it has no fixed one.
  let fallback: String?
  /// What `content` is as one writes it in JSON5; nil if the setting refuses it.
  let canonical: @Sendable (RawSetting.Content) -> String?

  init<Value>(_ setting: Setting<Value>) {
    path = setting.path
    isList = setting.type.isList
    isSecret = setting.isSecret
    fallback = setting.fallback.map(setting.type.write)
    canonical = { content in (try? setting.type.parse(content)).map(setting.type.write) }
  }

  /// The environment variable that holds it.
  var variable: String { variableName(of: path) }
}

/// The environment variable of a path: `server.tls.certificateFile` is `SERVER_TLS_CERTIFICATE_FILE`.
///
/// A word begins at a capital after a small letter. A run of capitals is one word. If a small letter follows the run,
/// its last capital begins the next word: `maxTTL` is `MAX_TTL`, and `clientCAFile` is `CLIENT_CA_FILE`.
func variableName(of path: String) -> String {
  var name = ""
  var previous: Character = "."
  var rest = path[...]
  while let character = rest.popFirst() {
    let endsRun = previous.isUppercase && rest.first?.isLowercase == true
    if character.isUppercase && (previous.isLowercase || endsRun) { name.append("_") }
    name.append(character == "." ? "_" : character.uppercased())
    previous = character
  }
  return name
}
