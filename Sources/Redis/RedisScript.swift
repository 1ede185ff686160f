import Bytes
import COpenSSL

/// A script that the server of Redis runs as one command. Its digest names it, so that its text travels only once.
package struct RedisScript: Sendable {
  /// The text in Lua 5.1.
  package let source: [UInt8]
  /// The SHA-1 of the text in hexadecimal (EVALSHA); nil if OpenSSL has no SHA-1.
  let digest: [UInt8]?

  package init(_ parts: StaticString...) {
    var text: [UInt8] = []
    for part in parts {
      text.append(part)
      text.append("\n")
    }
    self.source = text
    digest = Self.sha1(of: text).map { Array(String(hexadecimal: $0.span).utf8) }
  }

  private static func sha1(of bytes: [UInt8]) -> [UInt8]? {
    var digest = [UInt8](repeating: 0, count: 20)
    let isDone = unsafe digest.withUnsafeMutableBufferPointer { output in
      unsafe bytes.withUnsafeBufferPointer { bytes in
        unsafe EVP_Digest(bytes.baseAddress, bytes.count, output.baseAddress, nil, EVP_sha1(), nil) == 1
      }
    }
    return isDone ? digest : nil
  }

  /// The command that runs the script by its text.
  func command(_ keys: [[UInt8]], _ arguments: [[UInt8]]) -> [[UInt8]] {
    [Array("EVAL".utf8), source, Array("\(keys.count)".utf8)] + keys + arguments
  }

  /// The command that runs the script by its digest; nil without a digest.
  func shortCommand(_ keys: [[UInt8]], _ arguments: [[UInt8]]) -> [[UInt8]]? {
    digest.map { [Array("EVALSHA".utf8), $0, Array("\(keys.count)".utf8)] + keys + arguments }
  }
}

extension [UInt8] {
  /// Appends a command as an array of bulk strings.
  mutating func append(command: [[UInt8]]) {
    append(UInt8(ascii: "*"))
    append(decimal: command.count)
    append("\r\n")
    for argument in command { append(bulk: argument.span) }
  }

  mutating func append(bulk bytes: Span<UInt8>) {
    append(UInt8(ascii: "$"))
    append(decimal: bytes.count)
    append("\r\n")
    append(copying: bytes)
    append("\r\n")
  }
}
