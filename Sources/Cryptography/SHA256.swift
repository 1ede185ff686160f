import COpenSSL

/// The hash function SHA-256 (FIPS 180-4).
public enum SHA256 {
  /// Returns the digest of `bytes`. Throws if OpenSSL has no SHA-256 or no memory.
  public static func digest(of bytes: Span<UInt8>) throws(CryptographyError) -> InlineArray<32, UInt8> {
    try unsafe digest(of: bytes, by: "EVP_Digest") { input, output in
      // A missing algorithm makes the call fail.
      unsafe EVP_Digest(input.baseAddress, input.count, output, nil, algorithm.pointer, nil) == 1
    }
  }

  private static func digest(
    of bytes: Span<UInt8>, by function: String,
    _ body: (UnsafeBufferPointer<UInt8>, _ output: UnsafeMutablePointer<UInt8>?) -> Bool
  ) throws(CryptographyError) -> InlineArray<32, UInt8> {
    var digest = InlineArray<32, UInt8>(repeating: 0)
    var output = digest.mutableSpan
    let isDone = unsafe output.withUnsafeMutableBufferPointer { output in
      unsafe bytes.withUnsafeBufferPointer { unsafe body($0, output.baseAddress) }
    }
    guard isDone else { throw CryptographyError(function: function) }
    return digest
  }

  /// Reuses a context, which takes longer to prepare than a short digest. It belongs to one thread at a time.
  @safe package final class Hasher {
    // Safe: the context is valid from `init` to `deinit`.
    private let context: OpaquePointer

    package init() throws(CryptographyError) {
      guard let context = unsafe EVP_MD_CTX_new() else { throw CryptographyError(function: "EVP_MD_CTX_new") }
      unsafe self.context = context
    }

    deinit { unsafe EVP_MD_CTX_free(context) }

    package func digest(of bytes: Span<UInt8>) throws(CryptographyError) -> InlineArray<32, UInt8> {
      try unsafe SHA256.digest(of: bytes, by: "EVP_DigestFinal_ex") { input, output in
        unsafe EVP_DigestInit_ex2(context, algorithm.pointer, nil) == 1
          && EVP_DigestUpdate(context, input.baseAddress, input.count) == 1
          && EVP_DigestFinal_ex(context, output, nil) == 1
      }
    }
  }

  /// OpenSSL's algorithm, fetched once because a lookup by name costs as much as hashing a kilobyte.
  package static let algorithm = Algorithm()

  @safe package struct Algorithm: @unchecked Sendable {
    // Safe and Sendable: an EVP_MD is immutable, and this one is never freed.

    /// The algorithm; nil if OpenSSL has no SHA-256.
    package let pointer: OpaquePointer?

    fileprivate init() { unsafe pointer = EVP_MD_fetch(nil, "SHA256", nil) }
  }
}
