import JSON
import TestSupport

/// A token, parsed by other code than the server's.
struct CompactToken {
  let header: JSONValue
  let claims: JSONValue
  /// r and s, 32 bytes each.
  let signature: [UInt8]
  let signedBytes: String
  let signatureText: String

  init(_ text: String) throws {
    let parts = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
    guard parts.count == 3, let header = JSONReader.read(try Base64URL.decode(parts[0])),
      let claims = JSONReader.read(try Base64URL.decode(parts[1]))
    else { throw TestFailure("This is no token: \(text)") }
    self.header = header
    self.claims = claims
    signatureText = parts[2]
    signature = try Base64URL.decode(parts[2])
    signedBytes = "\(parts[0]).\(parts[1])"
  }

  /// The signature in the form that `openssl dgst` accepts: a DER sequence of two integers (RFC 3279 §2.2.3).
  var derSignature: [UInt8] {
    let integers = [signature.prefix(32), signature.suffix(32)].flatMap { number -> [UInt8] in
      var bytes = Array(number.drop { $0 == 0 })
      // The first bit of a positive number is 0.
      if bytes.first.map({ $0 >= 0x80 }) ?? true { bytes.insert(0, at: 0) }
      return [0x02, UInt8(bytes.count)] + bytes
    }
    return [0x30, UInt8(integers.count)] + integers
  }
}
