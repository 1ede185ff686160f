public import HTTPTypes

extension RequestHead {
  /// The methods of RFC 9110 §9.3 and PATCH (RFC 5789).
  public enum Method: Sendable, Equatable {
    case get, head, post, put, delete, connect, options, trace, patch
    /// Any other token.
    case other

    /// The method that the bytes in `range` spell, in upper case as they are registered.
    @inline(__always)
    init(_ range: Range<Int>, in bytes: Span<UInt8>) {
      switch range.count {
      case 3 where bytes.equals(range, "GET"): self = .get
      case 3 where bytes.equals(range, "PUT"): self = .put
      case 4 where bytes.equals(range, "HEAD"): self = .head
      case 4 where bytes.equals(range, "POST"): self = .post
      case 5 where bytes.equals(range, "TRACE"): self = .trace
      case 5 where bytes.equals(range, "PATCH"): self = .patch
      case 6 where bytes.equals(range, "DELETE"): self = .delete
      case 7 where bytes.equals(range, "OPTIONS"): self = .options
      case 7 where bytes.equals(range, "CONNECT"): self = .connect
      default: self = .other
      }
    }
  }

  /// The method as `HTTPTypes` has it. Makes a string only for ``Method/other``; nil only if `bytes` are others than
  /// those that were parsed.
  ///
  /// - Parameter bytes: The buffer that was parsed.
  public func requestMethod(in bytes: Span<UInt8>) -> HTTPRequest.Method? {
    switch method {
    case .get: .get
    case .head: .head
    case .post: .post
    case .put: .put
    case .delete: .delete
    case .connect: .connect
    case .options: .options
    case .trace: .trace
    case .patch: .patch
    case .other: HTTPRequest.Method(rawValue: bytes.string(in: methodRange))
    }
  }
}
