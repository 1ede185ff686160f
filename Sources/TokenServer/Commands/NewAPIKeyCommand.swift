import Access

/// Makes an API key.
public struct NewAPIKeyCommand: Sendable {
  private let isJSON: Bool

  /// The command with what its flags say.
  public init(isJSON: Bool) { self.isJSON = isJSON }

  /// The key and its SHA-256 on standard output, and for people on standard error what to do with each.
  public func run() -> CommandResult {
    do {
      let key = try APIKey.generate()
      // The one place where a key becomes text: it is about to be printed, and nothing else is left of it.
      let text = key.withBytes { bytes in String(decoding: bytes.indices.map { bytes[$0] }, as: UTF8.self) }
      let sha256 = key.digest.hexadecimal
      return isJSON ? Self.document(text, sha256) : Self.lines(text, sha256)
    } catch {
      return CommandResult(.failed, diagnostics: ["\(error)"])
    }
  }

  private static func document(_ key: String, _ sha256: String) -> CommandResult {
    CommandResult(
      .good, output: [JSONText.object([("key", JSONText.string(key)), ("sha256", JSONText.string(sha256))])])
  }

  private static func lines(_ key: String, _ sha256: String) -> CommandResult {
    CommandResult(
      .good, output: [key, "sha256 \(sha256)"],
      diagnostics: [
        "The first line is the key: hand it to the client, who sends it as “Authorization: Bearer KEY” or"
          + " “X-API-Key: KEY”. It is shown this once and kept nowhere.",
        "The second is for the configuration, which never has the key itself:"
          + " access: { clients: [{ id: \"my-app\", apiKey: { sha256: \"\(sha256)\" } }] }",
      ])
  }
}
