/// Why a connection has no PROXY header that can be believed.
public enum ProxyHeaderError: Error, Sendable, Equatable, CustomStringConvertible {
  /// The connection begins with something else.
  case missing
  /// It begins like a header of version 1, and goes on in a way that none does.
  case malformedText
  /// The same of version 2.
  case malformedBinary
  /// It is longer than ``ProxyHeader/maximumLength``.
  case tooLong
  /// Its checksum is of other bytes.
  case wrongChecksum
  /// It did not come in time, or not all of it.
  case incomplete

  /// A clause for a log: what there is instead.
  public var description: String {
    switch self {
    case .missing: "the connection begins with something else"
    case .malformedText: "the header of version 1 is malformed"
    case .malformedBinary: "the header of version 2 is malformed"
    case .tooLong: "the header is longer than \(ProxyHeader.maximumLength) bytes"
    case .wrongChecksum: "the header's checksum is wrong"
    case .incomplete: "the header did not come, or not all of it"
    }
  }
}
