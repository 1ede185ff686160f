import Glibc

/// The audit file cannot be written.
public struct AuditFileError: Error, Equatable, CustomStringConvertible {
  /// Where it is.
  public let path: String
  /// The error number of the system.
  public let code: Int32

  /// A sentence for the operator.
  public var description: String {
    // Opening a FIFO without waiting for its reader ends so, and so does a socket, which `/dev/stdout` may be.
    let reason = code == ENXIO ? "no process reads the FIFO, or it is a socket" : unsafe String(cString: strerror(code))
    return "The audit file '\(path)' cannot be written: \(reason)."
  }
}
