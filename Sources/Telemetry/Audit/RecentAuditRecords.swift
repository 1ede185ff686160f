import DequeModule
import Locks

/// The last records of the audit log, for a person who looks at them. They have the form of the file, so they contain no
/// token, no credential, and no subject of a caller's JWT.
public final class RecentAuditRecords: Sendable {
  /// The number of records. A record has 20 kB at most, with 32 origins of a token, so all have 1 MB.
  public static let capacity = 50

  /// The lines in JSON, without their ends, the oldest one first.
  private let lines = Locked<Deque<[UInt8]>>([])

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
    var json = Array("[".utf8)
    for line in lines.withLock({ $0 }).reversed() {
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
    lines.withLock { lines in
      if lines.count == Self.capacity { lines.removeFirst() }
      lines.append(line)
    }
  }
}
