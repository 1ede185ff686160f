import COpenSSL

/// HMAC-SHA-256 (RFC 2104) with one key, for any number of messages on any thread.
@safe public final class MessageAuthenticator: @unchecked Sendable {
  // Safe: the context is valid from `init` to `deinit`. Sendable: nothing changes it after `init`; each code has a copy.
  private let context: OpaquePointer

  /// Creates an authenticator. Throws if OpenSSL has no HMAC or no memory.
  public init(key: SecretBytes) throws(CryptographyError) {
    guard let mac = unsafe EVP_MAC_fetch(nil, "HMAC", nil) else { throw CryptographyError(function: "EVP_MAC_fetch") }
    defer { unsafe EVP_MAC_free(mac) }
    guard let context = unsafe EVP_MAC_CTX_new(mac) else { throw CryptographyError(function: "EVP_MAC_CTX_new") }
    let isKeyed = key.withBytes { bytes in
      unsafe bytes.withUnsafeBufferPointer { buffer in
        // OpenSSL copies the key, and does not write to it.
        unsafe copenssl_set_hmac_sha256(context, UnsafeMutablePointer(mutating: buffer.baseAddress), buffer.count) == 1
          && EVP_MAC_init(context, nil, 0, nil) == 1
      }
    }
    guard isKeyed else {
      unsafe EVP_MAC_CTX_free(context)
      throw CryptographyError(function: "EVP_MAC_init")
    }
    unsafe self.context = context
  }

  deinit { unsafe EVP_MAC_CTX_free(context) }

  /// Returns the code of a message. If OpenSSL has no memory, the code is random, so that it verifies nothing.
  public func code(of message: Span<UInt8>) -> InlineArray<32, UInt8> {
    var code = InlineArray<32, UInt8>(repeating: 0)
    if !write(message, to: &code) { for index in code.indices { code[index] = .random(in: 0...255) } }
    return code
  }

  private func write(_ message: Span<UInt8>, to code: inout InlineArray<32, UInt8>) -> Bool {
    guard let copy = unsafe EVP_MAC_CTX_dup(context) else { return false }
    defer { unsafe EVP_MAC_CTX_free(copy) }
    var output = code.mutableSpan
    var count = 0
    return unsafe output.withUnsafeMutableBufferPointer { output in
      unsafe message.withUnsafeBufferPointer { message in
        unsafe EVP_MAC_update(copy, message.baseAddress, message.count) == 1
          && EVP_MAC_final(copy, output.baseAddress, &count, output.count) == 1 && count == output.count
      }
    }
  }

  /// Returns whether `code` is that of a message, in constant time.
  public func verifies(_ code: Span<UInt8>, of message: Span<UInt8>) -> Bool {
    let expected = self.code(of: message)
    guard code.count == expected.count else { return false }
    return unsafe expected.span.withUnsafeBufferPointer { expected in
      unsafe code.withUnsafeBufferPointer { code in
        unsafe CRYPTO_memcmp(expected.baseAddress, code.baseAddress, code.count) == 0
      }
    }
  }
}
