/// The rules for the signature: raw, 64 bytes, the key's.
struct SignatureRules {
  let jws: JWS
  let key: VerificationKey?

  func check(into inspection: inout Inspection) {
    let signature = jws.signature.span
    guard let raw = ECDSASignature(raw: signature) else {
      return checkDER(signature, into: &inspection)
    }
    inspection.add("signature.form", .pass, "The signature is 64 raw bytes.")
    guard let key else { return addUnknown(into: &inspection) }
    inspection.add(
      "signature", key.verifies(raw, of: jws.signingInput.span), pass: "The given key made the signature.",
      fail: "The given key did not make this signature: it is another key's, or the token was changed.")
  }

  /// RFC 7518 §3.4 wants `r‖s`; most libraries make DER unless told otherwise.
  private func checkDER(_ signature: Span<UInt8>, into inspection: inout Inspection) {
    guard let converted = ECDSASignature(der: signature) else {
      inspection.add("signature.form", .fail, "The signature has \(signature.count) bytes; ES256 has exactly 64.")
      return
    }
    inspection.add(
      "signature.form", .fail,
      "The signature is DER (ASN.1), as OpenSSL makes it; a JWS carries the raw 64 bytes r‖s (RFC 7518 §3.4).")
    guard let key else { return addUnknown(into: &inspection) }
    inspection.add(
      "signature", key.verifies(converted, of: jws.signingInput.span),
      pass: "The given key made the signature; only its form is wrong.",
      fail: "The given key did not make this signature.")
  }

  private func addUnknown(into inspection: inout Inspection) {
    inspection.add("signature", .unknown, "Whose signature it is cannot be told without the key.")
  }
}
