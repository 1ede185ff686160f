import Cryptography

@testable import DeveloperToken

// The testing macros cannot capture a span, so the tests use these overloads for arrays.

extension ECDSASignature {
  init?(der: [UInt8]) { self.init(der: der.span) }
  init?(raw: [UInt8]) { self.init(raw: raw.span) }
  var bytes: [UInt8] { raw.indices.map { raw[$0] } }
}

extension VerificationKey {
  /// Creates a key from the coordinates of a point.
  convenience init?(x: [UInt8], y: [UInt8]) { self.init(subjectPublicKeyInfo: (ECDSASignature.keyPrefix + x + y).span) }
  func verifies(_ signature: ECDSASignature, of input: [UInt8]) -> Bool { verifies(signature, of: input.span) }
}

extension JWS {
  init(compact: [UInt8]) throws(JWSError) { try self.init(compact: compact.span) }
}

extension SecretBytes {
  convenience init(copying bytes: ArraySlice<UInt8>) { self.init(copying: bytes.span) }
  var bytes: [UInt8] { withBytes { bytes in bytes.indices.map { bytes[$0] } } }
}
