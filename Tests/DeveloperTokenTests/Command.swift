import Glibc

/// Runs shell commands: `openssl` and Python, which check our work or make what we are to read.
enum Command {
  /// What a command printed on standard output, and its exit status.
  static func run(_ command: String) -> (output: String, status: Int32) {
    guard let stream = unsafe popen(command, "r") else { return ("", -1) }
    var output: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 4096)
    while case let count = unsafe fread(&buffer, 1, buffer.count, stream), count > 0 {
      output.append(contentsOf: buffer[..<count])
    }
    return (String(decoding: output, as: UTF8.self), unsafe pclose(stream) >> 8)
  }
}
