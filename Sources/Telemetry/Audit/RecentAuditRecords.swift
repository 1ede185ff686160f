import Locks

/// The last records of the audit log, for a person who looks at them. They have the form of the file, so they contain no
/// token, no credential, and no subject of a caller's JWT.
public final class RecentAuditRecords: Sendable {
  /// The number of records. A record has 20 kB at most, with 32 origins of a token, so all have 1 MB.
  public static let capacity = 50

  private struct Ring {
    /// The lines in JSON, without their ends, the oldest one at `start`.
    var lines: [[UInt8]] = []
    var start = 0
  }

  private let ring = Locked(Ring())

  /// Creates an empty list.
  public init() {}

  /// Keeps a record, and drops the oldest one if there are too many.
  public func keep(_ record: AuditRecord) {
    keep { record.append(to: &$0, format: .json, time: .now()) }
  }

  /// Keeps a record of a change of the signing key.
  public func keep(_ record: KeyAuditRecord) {
    keep { record.append(to: &$0, format: .json, time: .now()) }
  }

  /// The records as an array of JSON objects, the newest first.
  public var json: [UInt8] {
    let (lines, start) = ring.withLock { ($0.lines, $0.start) }
    var json = Array("[".utf8)
    for line in (lines[start...] + lines[..<start]).reversed() {
      if json.count > 1 { json.append(UInt8(ascii: ",")) }
      json += line
    }
    return json + "]".utf8
  }

  private func keep(_ write: (inout [UInt8]) -> Void) {
    var written: [UInt8] = []
    write(&written)
    // A copy, because a record is written with room for escapes that it seldom needs.
    let line = Array(written.last == UInt8(ascii: "\n") ? written.dropLast() : written[...])
    ring.withLock { ring in
      guard ring.lines.count == Self.capacity else { return ring.lines.append(line) }
      ring.lines[ring.start] = line
      ring.start = (ring.start + 1) % Self.capacity
    }
  }
}
