import Bytes
import COpenSSL

/// A script that the server of Redis runs as one command. Its digest names it, so that its text travels only once.
package struct RedisScript: Sendable {
  /// The text in Lua 5.1.
  let source: [UInt8]
  /// The SHA-1 of the text in hexadecimal (EVALSHA); nil if OpenSSL has no SHA-1.
  let digest: [UInt8]?

  package init(_ parts: StaticString...) {
    var text: [UInt8] = []
    for part in parts {
      text.append(part)
      text.append("\n")
    }
    source = text
    var sha1 = [UInt8](repeating: 0, count: 20)
    let isDone = unsafe sha1.withUnsafeMutableBufferPointer { output in
      unsafe text.withUnsafeBufferPointer { bytes in
        unsafe EVP_Digest(bytes.baseAddress, bytes.count, output.baseAddress, nil, EVP_sha1(), nil) == 1
      }
    }
    digest = isDone ? Array(String(hexadecimal: sha1.span).utf8) : nil
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
