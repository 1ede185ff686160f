extension SigningKey {
  /// A key from a file.
  ///
  /// The key ID is the one in a file name `AuthKey_<KEYID>.p8` unless one is given; if both are there and differ, one
  /// of them is wrong and tokens would be refused by Apple, so that is an error which names both. Symbolic links are
  /// followed, since that is how Kubernetes mounts secrets, and the name is that of the path as given.
  ///
  /// - Throws: `SigningKeyError`, which names the path and what is wrong.
  public static func load(file path: String, keyID: KeyID?) throws(SigningKeyError) -> SigningKey {
    do {
      let keyID = try Self.keyID(given: keyID, path: path)
      let file = try KeyFile.read(path)
      return try SigningKey(parsing: file.text, keyID: keyID, findings: file.findings)
    } catch {
      throw error.at(path)
    }
  }

  private static func keyID(given: KeyID?, path: String) throws(SigningKeyError) -> KeyID {
    let name = path.split(separator: "/").last ?? ""
    guard name.hasPrefix("AuthKey_"), name.hasSuffix(".p8") else {
      guard let given else { throw .init(.noKeyID) }
      return given
    }
    let text = String(name.dropFirst("AuthKey_".count).dropLast(".p8".count))
    guard let inFileName = try? KeyID(text) else {
      // The user chose a name like AuthKey_production.p8; it does not contradict the given key ID.
      guard let given else { throw .init(.badKeyIDInFileName(text)) }
      return given
    }
    guard let given, given != inFileName else { return inFileName }
    throw .init(.keyIDMismatch(given: given, inFileName: inFileName))
  }
}
