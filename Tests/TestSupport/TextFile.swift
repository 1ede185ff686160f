import Glibc

/// Files as a test reads them.
public enum TextFile {
  /// The contents of a file, as UTF-8.
  public static func read(_ path: String) throws -> String {
    guard let file = unsafe fopen(path, "re") else { throw TestFailure("'\(path)' cannot be read.") }
    defer { unsafe _ = fclose(file) }
    var contents: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while case let count = unsafe fread(&buffer, 1, buffer.count, file), count > 0 { contents += buffer[..<count] }
    return String(decoding: contents, as: UTF8.self)
  }
}
