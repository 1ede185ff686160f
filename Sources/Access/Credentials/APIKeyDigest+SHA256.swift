import COpenSSL
import DeveloperToken

extension APIKeyDigest {
  /// SHA-256 (FIPS 180-4).
  ///
  /// - Throws: `CryptographyError` if OpenSSL has no SHA-256, or no memory.
  static func sha256(of bytes: Span<UInt8>) throws(CryptographyError) -> InlineArray<32, UInt8> {
    var digest = InlineArray<32, UInt8>(repeating: 0)
    var output = digest.mutableSpan
    let isDone = unsafe output.withUnsafeMutableBufferPointer { output in
      unsafe bytes.withUnsafeBufferPointer { bytes in
        // Without an algorithm it fails, rather than hash with none.
        unsafe EVP_Digest(bytes.baseAddress, bytes.count, output.baseAddress, nil, algorithm.pointer, nil) == 1
      }
    }
    guard isDone else {
      throw CryptographyError(function: "EVP_Digest")
    }
    return digest
  }

  /// Fetched once: looking it up by its name costs as much as hashing a kilobyte.
  private static let algorithm = Algorithm()

  @safe private struct Algorithm: @unchecked Sendable {
    // Safe and Sendable because an EVP_MD does not change, and this one is never freed.
    let pointer: OpaquePointer?

    init() { unsafe pointer = EVP_MD_fetch(nil, "SHA256", nil) }
  }
}
