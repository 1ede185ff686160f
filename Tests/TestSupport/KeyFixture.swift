import Glibc

/// A folder with a fresh P-256 key from the `openssl` command. `deinit` removes the folder.
public final class KeyFixture {
  /// The path of the folder.
  public let folder: String
  /// The path of the private key, with the key ID ABC1234567.
  public var path: String { "\(folder)/AuthKey_ABC1234567.p8" }
  /// The same key in a file whose name does not contain the key ID.
  public var plainPath: String { "\(folder)/key.pem" }

  /// Makes the key.
  public init() throws {
    var template = Array("/tmp/key-XXXXXX".utf8CString)
    guard unsafe mkdtemp(&template) != nil else { throw TestFailure("No folder can be made in /tmp.") }
    folder = String(decoding: template.dropLast().map { UInt8(truncatingIfNeeded: $0) }, as: UTF8.self)
    let command = "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out \(path) 2>/dev/null"
    guard unsafe system("\(command) && chmod 600 \(path) && cp -p \(path) \(plainPath)") == 0 else {
      throw TestFailure("The openssl command makes no key.")
    }
  }

  deinit { unsafe system("rm -r \(folder)") }
}
