import Cryptography
import TestSupport
import Testing

@testable import DeveloperToken

@Suite("A pasted key", .otherPrograms)
struct KeyFormTests {
  /// A change that copying makes to the text of a key.
  struct Form: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let change: @Sendable (String) -> String

    init(_ name: String, _ change: @escaping @Sendable (String) -> String) {
      (testDescription, self.change) = (name, change)
    }
  }

  static func replacing(_ text: String, _ pattern: Character, _ replacement: String) -> String {
    text.map { $0 == pattern ? replacement : String($0) }.joined()
  }

  static func body(_ text: String) -> String {
    text.split(separator: "\n").filter { !$0.hasPrefix("-----") }.joined(separator: "\n")
  }

  static func base64(_ text: String, columns: Int = 0) -> String { base64(bytes: Array(text.utf8), columns: columns) }

  static func base64(bytes: [UInt8], columns: Int = 0) -> String {
    let standard = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
    var output = ""
    var bits: UInt32 = 0
    var count = 0
    for byte in bytes {
      (bits, count) = (bits << 8 | UInt32(byte), count + 8)
      while count >= 6 {
        count -= 6
        output.append(standard[Int(bits >> UInt32(count)) & 63])
      }
    }
    if count > 0 { output.append(standard[Int(bits << UInt32(6 - count)) & 63]) }
    while output.count % 4 != 0 { output.append("=") }
    guard columns > 0 else { return output }
    return stride(from: 0, to: output.count, by: columns).map { start in
      String(output.dropFirst(start).prefix(columns))
    }.joined(separator: "\r\n")
  }

  static let inner = [
    Form("as downloaded") { $0 },
    Form("without header lines") { body($0) },
    Form("without header lines, on one line") { replacing(body($0), "\n", "") },
    Form("in base64") { base64($0) },
    Form("in base64 of 76 columns with CRLF") { base64($0, columns: 76) },
    Form("in base64 without padding") { replacing(base64($0), "=", "") },
    Form("in base64url") { replacing(replacing(base64($0), "+", "-"), "/", "_") },
    Form("in base64 of base64") { base64(base64($0)) },
    Form("in base64 of its bare body") { base64(body($0)) },
    Form("in base64 with literal \\n inside") { base64(replacing($0, "\n", "\\n")) },
    Form("with a BOM, in base64") { base64("\u{FEFF}" + $0) },
  ]

  static let outer = [
    Form("as it is") { $0 },
    Form("with literal \\n") { replacing($0, "\n", "\\n") },
    Form("with literal \\\\n") { replacing($0, "\n", "\\\\n") },
    Form("with literal \\r\\n") { replacing($0, "\n", "\\r\\n") },
    Form("with CRLF") { replacing($0, "\n", "\r\n") },
    Form("with CR") { replacing($0, "\n", "\r") },
    Form("with a BOM") { "\u{FEFF}" + $0 },
    Form("in double quotes") { "\"\($0)\"" },
    Form("in single quotes") { "'\($0)'" },
    Form("in escaped quotes") { "\\\"\($0)\\\"" },
    Form("with spaces in place of line ends") { replacing($0, "\n", " ") },
    Form("without line ends") { replacing($0, "\n", "") },
    Form("with trailing spaces and blank lines") { "\n\n  " + replacing($0, "\n", "  \n\n") + "\t\n" },
    Form("with no-break spaces") { replacing($0, "\n", "\u{A0}") },
    Form("with JSON-escaped slashes") { replacing($0, "/", "\\/") },
    Form("with a BOM, quotes and literal \\n") { "\u{FEFF}\"" + replacing($0, "\n", "\\n") + "\"\r\n" },
    Form("with continued lines") { replacing($0, "\n", "\\\n") },
  ]

  @Test("is accepted in every form and every wrapping", arguments: inner, outer)
  func everyForm(inner: Form, outer: Form) throws {
    let plain = try SigningKey(parsing: Samples.secret(Samples.p8), keyID: Samples.keyID())
    let pasted = outer.change(inner.change(Samples.p8))
    let key = try SigningKey(parsing: Samples.secret(pasted), keyID: Samples.keyID())
    #expect(key.publicKeyPEM == plain.publicKeyPEM)
  }

  @Test("has the public key that openssl derives")
  func publicKey() throws {
    let directory = try TemporaryDirectory()
    let path = try directory.write(Samples.p8, to: "AuthKey_ABC123DEFG.p8")
    let key = try SigningKey.load(file: path, keyID: nil)
    #expect(key.publicKeyPEM == Samples.openssl("pkey -in \(path) -pubout"))
    let der = directory.path(of: "public.der")
    _ = Samples.openssl("pkey -in \(path) -pubout -outform DER -out \(der)")
    #expect(Samples.openssl("dgst -sha256 -r \(der)").hasPrefix("\(key.fingerprint) "))
  }

  @Test("is accepted with text around the PEM block, which RFC 7468 tells readers to ignore")
  func textAround() throws {
    let pasted = "Bag Attributes\n    friendlyName: music\n" + Samples.p8 + "thanks\n"
    let key = try SigningKey(parsing: Samples.secret(pasted), keyID: Samples.keyID())
    let plain = try SigningKey(parsing: Samples.secret(Samples.p8), keyID: Samples.keyID())
    #expect(key.publicKeyPEM == plain.publicKeyPEM)
  }

  @Test("that is truncated anywhere is refused, mostly as truncated")
  func everyPrefix() throws {
    let keyID = try Samples.keyID()
    let text = Array(Samples.p8.utf8)
    // Without the last line end and the dashes of the last line, the key is still complete.
    var truncated = 0
    for count in 0..<(text.count - 30) {
      let error = #expect(throws: SigningKeyError.self) {
        try SigningKey(parsing: SecretBytes(copying: text[..<count]), keyID: keyID)
      }
      if error?.reason == .truncated { truncated += 1 }
    }
    #expect(truncated > text.count * 3 / 4)
  }

  @Test("whose bare body is truncated is refused as truncated", arguments: [20, 64, 100, 101, 102, 103, 150])
  func bareBodyCut(count: Int) throws {
    let body = Self.replacing(Self.body(Samples.p8), "\n", "")
    let error = #expect(throws: SigningKeyError.self) {
      try SigningKey(parsing: Samples.secret(String(body.prefix(count))), keyID: Samples.keyID())
    }
    #expect(error?.reason == .truncated)
  }
}
