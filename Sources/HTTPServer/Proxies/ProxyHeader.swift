public import EventLoop

/// What a proxy says about a connection that it relays, ahead of the connection's own bytes: the PROXY protocol's
/// header, in text (version 1) or in binary (version 2), as `proxy-protocol.txt` of HAProxy has them.
///
/// Read a header only from a trusted peer, because every client can write one.
public struct ProxyHeader: Sendable, Equatable {
  /// On whose behalf there is a connection.
  public enum Source: Sendable, Equatable {
    /// The proxy's client.
    case address(IPAddress, port: UInt16)
    /// A client of whom the proxy tells no address: `UNKNOWN`, `AF_UNSPEC`, or the path of a Unix-domain socket.
    case unknown
    /// The proxy itself, as for a health check: the command `LOCAL`.
    case proxy
  }

  /// On whose behalf there is this connection.
  public let source: Source

  /// How many bytes it takes; the connection's own follow.
  public let length: Int

  /// The most bytes that one may take: what nginx takes. Addresses take 232 at most; the rest is for what is told about
  /// TLS, the host name and the like, which is skipped here.
  public static let maximumLength = 4096

  /// Reads the header that `bytes` begin with.
  ///
  /// - Parameter bytes: All bytes that have arrived on the connection so far. When more have arrived, call again with
  ///   all of them: an error is found as soon as its byte is there, and is the same however the bytes were split.
  /// - Returns: Nil if the header is not complete.
  /// - Throws: ``ProxyHeaderError`` if the bytes are not a PROXY header, or not a valid one.
  public static func parse(_ bytes: Span<UInt8>) throws(ProxyHeaderError) -> ProxyHeader? {
    guard !bytes.isEmpty else { return nil }
    return bytes[0] == UInt8(ascii: "P") ? try parseText(bytes) : try parseBinary(bytes)
  }
}

extension Span<UInt8> {
  /// Whether these bytes begin with `expected`, or are the beginning of it if they are fewer.
  func agrees(with expected: [UInt8]) -> Bool {
    (0..<Swift.min(count, expected.count)).allSatisfy { self[$0] == expected[$0] }
  }
}
