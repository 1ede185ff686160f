import Glibc
import TestSupport

/// The built binary, which the package manager places beside the test bundle.
enum Program {
  static let path: String = {
    var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
    let count = unsafe readlink("/proc/self/exe", &buffer, buffer.count - 1)
    let runner = String(decoding: buffer.prefix(max(count, 0)).map { UInt8(truncatingIfNeeded: $0) }, as: UTF8.self)
    let beside = runner.split(separator: "/").dropLast().map { "/" + $0 }.joined() + "/musickit-token-server"
    // `swift test` may run the bundle with the toolchain's own runner.
    return unsafe access(beside, X_OK) == 0 ? beside : Repository.path + "/.build/debug/musickit-token-server"
  }()

  /// Runs a command to its end. Its environment is only `environment`.
  static func run(
    _ arguments: [String], environment: [String: String] = [:], input: String = ""
  ) throws -> ProcessResult {
    try TestSupport.run(path, arguments, input: Array(input.utf8), environment: environment)
  }
}
