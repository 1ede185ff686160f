import Glibc

/// Foreign text in sentences for people.
package enum Printable {
  /// The text in quotes if it is short, harmless ASCII; else only its size, so that neither a terminal escape nor a
  /// secret pasted into the wrong place gets into a log.
  package static func quote(_ text: some StringProtocol, limit: Int = 80) -> String {
    let bytes = text.utf8
    guard bytes.count <= limit, bytes.allSatisfy({ (0x20...0x7E).contains($0) }) else {
      return "(\(bytes.count) bytes)"
    }
    return "“\(text)”"
  }

  /// A path as it is found from the root, also if it was written relative to the working directory.
  package static func absolute(_ path: String) -> String {
    guard !path.hasPrefix("/"), let folder = unsafe getcwd(nil, 0) else { return path }
    defer { unsafe free(folder) }
    let root = unsafe String(cString: folder)
    return root == "/" ? "/\(path)" : "\(root)/\(path)"
  }

  /// ``quote(_:limit:)`` for bytes from outside.
  package static func quote(_ bytes: ByteString, limit: Int = 80) -> String { quote(bytes.text, limit: limit) }
}
