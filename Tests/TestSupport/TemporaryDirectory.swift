import Glibc

/// A new directory. The deinitialization of this object removes the directory and its content.
public final class TemporaryDirectory: Sendable {
  /// The absolute path, without a trailing slash.
  public let path: String

  /// Creates the directory, which only the current user may access.
  public init() throws {
    let parent = unsafe getenv("TMPDIR").map { unsafe String(cString: $0) } ?? "/tmp"
    var template = Array("\(parent)/test.XXXXXX".utf8CString)
    guard unsafe mkdtemp(&template) != nil else { throw TestFailure("No directory can be made in '\(parent)'.") }
    path = String(decoding: template.dropLast().map { UInt8(truncatingIfNeeded: $0) }, as: UTF8.self)
  }

  deinit { _ = try? run("rm", ["-rf", path]) }

  /// Returns the path of an entry in the directory, whether it exists or not.
  public func path(of name: String) -> String { "\(path)/\(name)" }

  /// Writes a file into the directory and returns its path.
  /// - Parameter mode: The file's permissions, regardless of the umask.
  @discardableResult
  public func write(_ contents: String, to name: String, mode: UInt32 = 0o600) throws -> String {
    try write(Array(contents.utf8), to: name, mode: mode)
  }

  /// Writes a file into the directory and returns its path.
  /// - Parameter mode: The file's permissions, regardless of the umask.
  @discardableResult
  public func write(_ contents: [UInt8], to name: String, mode: UInt32 = 0o600) throws -> String {
    let path = path(of: name)
    guard let file = unsafe fopen(path, "w") else { throw TestFailure("'\(path)' cannot be written.") }
    defer { unsafe _ = fclose(file) }
    guard unsafe fwrite(contents, 1, contents.count, file) == contents.count, unsafe fchmod(fileno(file), mode) == 0
    else { throw TestFailure("'\(path)' cannot be written.") }
    return path
  }
}
