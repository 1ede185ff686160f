import Glibc

/// A directory for one test, removed with everything in it at the end.
final class TemporaryDirectory: Sendable {
  let path: String

  init() {
    var template = Array("/tmp/developer-token-tests.XXXXXX".utf8CString)
    path = unsafe mkdtemp(&template).map { unsafe String(cString: $0) } ?? "/nonexistent"
  }

  deinit { _ = Command.run("rm -rf '\(path)'") }

  /// Writes a file, owner-only unless told otherwise; its path.
  @discardableResult
  func write(_ name: String, _ text: String, mode: mode_t = 0o600) -> String {
    write(name, Array(text.utf8), mode: mode)
  }

  @discardableResult
  func write(_ name: String, _ bytes: [UInt8], mode: mode_t = 0o600) -> String {
    let file = path + "/" + name
    guard let stream = unsafe fopen(file, "w") else { return file }
    unsafe fwrite(bytes, 1, bytes.count, stream)
    unsafe fclose(stream)
    unsafe chmod(file, mode)
    return file
  }
}
