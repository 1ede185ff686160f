import ServerSettings

/// A secret text that a command reads from a file, from standard input, or from its arguments.
struct CommandSecret {
  /// The name for errors, such as `music user token`.
  let name: String
  let limit: Int
  /// What the file should have.
  let content: String

  /// Reads a file, or standard input for `-`.
  ///
  /// - Parameter input: The descriptor of standard input.
  /// - Throws: A sentence that does not quote the text.
  func read(file: String, input: Int32) throws(CommandError) -> String {
    let bytes: [UInt8]
    do throws(SmallFile.Failure) {
      bytes =
        file == "-"
        ? try SmallFile.read(input, atMost: 2 * limit, within: nil) : try SmallFile.read(file, atMost: 2 * limit)
    } catch {
      throw CommandError(.usage, "The file of the \(name) \(error).")
    }
    return try read(bytes)
  }

  func read(_ bytes: [UInt8]) throws(CommandError) -> String {
    let isSpace = { (byte: UInt8) in byte == 0x20 || (0x09...0x0D).contains(byte) }
    let secret: [UInt8] = bytes.drop(while: isSpace).reversed().drop(while: isSpace).reversed()
    guard !String(decoding: secret, as: UTF8.self).contains("PRIVATE KEY") else { throw isPrivateKey }
    guard !secret.isEmpty, secret.count <= limit, secret.allSatisfy({ (0x21...0x7E).contains($0) }) else {
      throw CommandError(
        .usage, "The \(name) is not 1 to \(limit) visible ASCII characters. Write \(content), and nothing else.")
    }
    let text = String(decoding: secret, as: UTF8.self)
    guard !Self.isKey(text) else { throw isPrivateKey }
    return text
  }

  private var isPrivateKey: CommandError { CommandError(.usage, "The \(name) is a private key. Keep it secret.") }

  /// Whether the text is a private key, which is as long as a token and has the same characters. Only PEM, or the first
  /// bytes of a P-256 key in PKCS #8 or SEC 1, show the difference.
  static func isKey(_ text: String) -> Bool {
    text.contains("PRIVATE KEY") || text.contains("-----") || text.hasPrefix("MIG") || text.hasPrefix("MHc")
  }
}
