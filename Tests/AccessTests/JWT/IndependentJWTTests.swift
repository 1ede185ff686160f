import Glibc
import TestSupport
import Testing

@testable import Access

@Suite("JWTs and PyJWT", .otherPrograms)
struct IndependentJWTTests {
  /// Python with PyJWT and cryptography.
  private static let python = unsafe getenv("TEST_PYTHON").map { unsafe String(cString: $0) } ?? "python3"
  private static let script =
    String("\(#filePath)".split(separator: "/").dropLast(3).map { "/" + $0 }.joined())
    + "/Python/cross_check_jwts.py"

  @Test("the verifier accepts tokens of PyJWT, and refuses each with one character changed")
  func made() throws {
    let result = try run(Self.python, [Self.script, "make", "50"])
    try #require(result.status == 0, "\(result.stderr)")
    var lines = result.stdout.split(separator: "\n")
    let keys = try JSONWebKeySet(Array(lines.removeFirst().utf8))
    #expect(keys.count == 4 && keys.findings.isEmpty)
    #expect(lines.count == 200)
    for (index, line) in lines.enumerated() {
      let token = String(line)
      #expect(try verdict(on: token, by: keys).get().subject == "user-\(index % 50)")
      #expect(try verdict(on: changed(token, at: index * 7919), by: keys).refusal != nil, "\(token) at \(index * 7919)")
    }
  }

  @Test("PyJWT accepts the tokens that the verifier accepts")
  func verified() throws {
    let keys = JWTSamples.keys
    let set = try [keys.ec.get().jwk("ec"), keys.rsa.get().jwk("rsa"), keys.ed.get().jwk("ed")]
    var lines = "{\"keys\":[\(set.joined(separator: ","))]}\n"
    for algorithm in JWTAlgorithm.allCases.map(\.rawValue) {
      for index in 0..<25 {
        let claims = JWTSamples.claims.replacing("user-1", with: "user-\(index)")
        let token = try JWTSamples.token(algorithm, claims: claims)
        #expect(try verdict(on: token).refusal == nil)
        lines += token + "\n"
      }
    }
    let result = try run(Self.python, [Self.script, "verify"], input: Array(lines.utf8))
    #expect(result.stdout == "100\n", "\(result.stderr)")
  }

  /// The token with one base64url character changed at `place` or after it, never a dot.
  private func changed(_ token: String, at place: Int) -> String {
    var bytes = Array(token.utf8)
    let index = place % bytes.count
    guard bytes[index] != UInt8(ascii: ".") else { return changed(token, at: place + 1) }
    bytes[index] = bytes[index] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
    return String(decoding: bytes, as: UTF8.self)
  }
}
