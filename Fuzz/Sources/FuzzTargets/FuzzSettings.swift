import ServerSettings

/// Reads the input as a setting's value in JSON5. Traps unless every error is one safe line.
func fuzzSettings(_ bytes: [UInt8]) {
  let text = String(decoding: bytes, as: UTF8.self)
  let input = SettingsInput(
    environment: ["ACCESS_ANONYMOUS": text, "SERVER_TRUSTED_PROXIES": text, "SERVER_LIMITS": text, "TOKEN_TTL": text],
    host: HostFacts(openFiles: 1024, cores: 2, logsToTerminal: false))
  do {
    _ = try Settings.load(input)
    preconditionFailure("there is no key, so there must be an error")
  } catch {
    for error in error.errors {
      let sentence = error.description
      precondition(sentence.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F }, "one line")
      precondition(sentence.utf8.count < 4096, "no longer than a line may be")
    }
  }
}
