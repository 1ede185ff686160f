import COpenSSL

/// The protocols that one side speaks, in the wire form of ALPN (RFC 7301 §3.1) and at an address that stays.
@safe final class ApplicationProtocols {
  private let wire: UnsafeMutableBufferPointer<UInt8>

  /// - Throws: `configuration` if a name is empty or longer than 255 bytes.
  init(_ names: [String]) throws(TLSError) {
    var bytes: [UInt8] = []
    for name in names {
      guard let length = UInt8(exactly: name.utf8.count), length > 0 else {
        throw TLSError(.configuration, "The ALPN name '\(name)' is not 1 to 255 bytes long (RFC 7301 §3.1).")
      }
      bytes.append(length)
      bytes.append(contentsOf: name.utf8)
    }
    unsafe wire = .allocate(capacity: bytes.count)
    _ = unsafe wire.initialize(from: bytes)
  }

  deinit { unsafe wire.deallocate() }

  /// Lets `context` choose by the server's preference. The context must not outlive this.
  func select(on context: OpaquePointer) {
    guard unsafe !wire.isEmpty else { return }
    let opaque = unsafe Unmanaged.passUnretained(self).toOpaque()
    unsafe SSL_CTX_set_alpn_select_cb(
      context,
      { _, choice, choiceLength, offer, offerLength, opaque in
        guard let opaque = unsafe opaque else { return SSL_TLSEXT_ERR_ALERT_FATAL }
        let protocols = unsafe Unmanaged<ApplicationProtocols>.fromOpaque(opaque).takeUnretainedValue()
        return unsafe protocols.choose(from: offer, offerLength, choice, choiceLength)
      }, opaque)
  }

  /// Offers them to the server of `ssl`, which copies them. False if OpenSSL refuses.
  func offer(on ssl: OpaquePointer) -> Bool {
    // 0 is success here, unlike everywhere else.
    unsafe wire.isEmpty || SSL_set_alpn_protos(ssl, wire.baseAddress, UInt32(wire.count)) == 0
  }

  private func choose(
    from offer: UnsafePointer<UInt8>?, _ offerLength: UInt32,
    _ choice: UnsafeMutablePointer<UnsafePointer<UInt8>?>?, _ choiceLength: UnsafeMutablePointer<UInt8>?
  ) -> Int32 {
    var found: UnsafeMutablePointer<UInt8>?
    let verdict = unsafe SSL_select_next_proto(
      &found, choiceLength, wire.baseAddress, UInt32(wire.count), offer, offerLength)
    // Not ERR_NOACK, which would go on without a protocol: RFC 7301 §3.2 has the server refuse.
    guard verdict == OPENSSL_NPN_NEGOTIATED else { return SSL_TLSEXT_ERR_ALERT_FATAL }
    unsafe choice?.pointee = unsafe UnsafePointer(found)
    return SSL_TLSEXT_ERR_OK
  }
}
