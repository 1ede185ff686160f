import Glibc
import Testing

/// A folder with a fresh P-256 key from the `openssl` command. `deinit` removes the folder.
final class KeyFixture {
  let folder: String
  var path: String { "\(folder)/AuthKey_ABC1234567.p8" }
  /// The same key in a file whose name does not contain the key ID.
  var plainPath: String { "\(folder)/key.pem" }

  init() throws {
    var template = Array("/tmp/key-XXXXXX".utf8CString)
    try #require(unsafe mkdtemp(&template) != nil)
    folder = String(decoding: template.dropLast().map { UInt8(truncatingIfNeeded: $0) }, as: UTF8.self)
    let command = "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out \(path) 2>/dev/null"
    try #require(unsafe system("\(command) && chmod 600 \(path) && cp -p \(path) \(plainPath)") == 0)
  }

  deinit { unsafe system("rm -r \(folder)") }
}
