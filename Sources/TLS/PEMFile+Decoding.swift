import COpenSSL

extension PEMFile {
  /// Hands every certificate in the file to `body`, in order, with its place from 0.
  /// - Throws: `configuration` if the file holds no certificate or a damaged one; and what `body` throws.
  func forEachCertificate(
    _ body: (Int, consuming Certificate) throws(TLSError) -> Void
  ) throws(TLSError) {
    unsafe try withBIO { bio throws(TLSError) in
      var place = 0
      ErrorQueue.clear()
      while let certificate = unsafe PEM_read_bio_X509(bio, nil, nil, nil) {
        unsafe try body(place, Certificate(owning: certificate))
        place += 1
      }
      // The end of the file is the one good reason to stop.
      guard ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE else {
        throw .configuration("Certificate \(place + 1) in '\(path)' is damaged; copy the file afresh.")
      }
      ErrorQueue.clear()
      guard place > 0 else {
        throw TLSError(
          .configuration, "'\(path)' holds no certificate but \(contents); name the PEM certificate chain.")
      }
    }
  }

  /// Calls `body` with the private key in the file.
  /// - Throws: `configuration` if the file holds no key, or if the key is encrypted or damaged; and what `body` throws.
  func withPrivateKey(_ body: (OpaquePointer) throws(TLSError) -> Void) throws(TLSError) {
    unsafe try withBIO { bio throws(TLSError) in
      var isEncrypted = false
      ErrorQueue.clear()
      // Only an encrypted key makes OpenSSL ask for a passphrase; without this it would ask on the terminal.
      let key = unsafe PEM_read_bio_PrivateKey(
        bio, nil,
        { _, _, _, isEncrypted in
          unsafe isEncrypted?.assumingMemoryBound(to: Bool.self).pointee = true
          return -1
        }, &isEncrypted)
      guard let key = unsafe key else { throw keyFault(isEncrypted: isEncrypted) }
      defer { unsafe EVP_PKEY_free(key) }
      unsafe try body(key)
    }
  }

  private func keyFault(isEncrypted: Bool) -> TLSError {
    if isEncrypted {
      ErrorQueue.clear()
      return TLSError(
        .configuration,
        "The key in '\(path)' is encrypted; decrypt it with 'openssl pkey -in \(path) -out key.pem' and name that file."
      )
    }
    return .configuration("'\(path)' holds no usable private key but \(contents); name the PEM key of the certificate.")
  }
}
