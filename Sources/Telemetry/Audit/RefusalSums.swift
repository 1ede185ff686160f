import Bytes

/// Counts the refusals of each address, so that an address leaves only so many lines in a second, and one with the sum of
/// the others.
///
/// A stranger without a credential causes as many refusals as the network takes. A line for each would fill the audit log
/// and push out what is of use to its reader. The value has no clock.
public struct RefusalSums: Sendable {
  /// The refusals of an address in one second that have no line of their own.
  public struct Sum: Sendable, Equatable {
    /// The address or network; `other` for those beyond the maximum number of addresses.
    public var address: String
    /// The number of refused requests.
    public var refused = 0
    /// The number of requests beyond a rate.
    public var limited = 0

    var isEmpty: Bool { refused == 0 && limited == 0 }
  }

  /// The number of refusals in a second for which an address has lines. Above what a person or a test causes, and as many
  /// as an address may have failed attempts at once.
  public static let lines = 100
  /// The maximum number of addresses in a second. Further ones count together.
  static let addresses = 4096

  private struct Entry {
    var lines = 0
    var sum: Sum
  }

  private var entries: [ByteString: Entry] = [:]
  /// Whether there was a refusal since the last sums.
  private var isCounting = false

  /// Creates empty counts.
  public init() {}

  /// Counts one refusal.
  ///
  /// - Parameters:
  ///   - address: The address, or the smallest network that one customer holds.
  ///   - isLimited: Whether the caller was beyond a rate.
  /// - Returns: Whether it has a line of its own, and whether it is the first refusal since the last sums, so that the
  ///   owner has to take them in a second.
  public mutating func count(_ address: String, isLimited: Bool) -> (hasLine: Bool, isFirst: Bool) {
    let isFirst = !isCounting
    isCounting = true
    var key = ByteString(address)
    if entries[key] == nil, entries.count >= Self.addresses { key = "other" }
    var entry = entries[key] ?? Entry(sum: Sum(address: key == "other" ? "other" : address))
    defer { entries[key] = entry }
    if entry.lines < Self.lines {
      entry.lines += 1
      return (true, isFirst)
    }
    if isLimited { entry.sum.limited += 1 } else { entry.sum.refused += 1 }
    return (false, isFirst)
  }

  /// Returns the sums, the largest first, and begins another second with the next refusal.
  public mutating func take() -> [Sum] {
    defer {
      entries.removeAll(keepingCapacity: entries.count < 64)
      isCounting = false
    }
    return entries.values.map(\.sum).filter { !$0.isEmpty }.sorted {
      ($0.refused + $0.limited, $1.address) > ($1.refused + $1.limited, $0.address)
    }
  }
}

extension RefusalSums.Sum {
  /// Appends the sum as a line of `format` to `bytes`.
  func append(to bytes: inout [UInt8], format: LogFormat, time: LineTime) {
    let room = LogFormat.roomForRecord + LogFormat.room(forTexts: address.utf8.count)
    bytes.append(addingCapacity: room) { (line: inout OutputSpan<UInt8>) in
      format.begin(&line, time: time, level: "info", literal: "audit")
      format.field(&line, json: #","audit.event":"#, word: "refusals_summed_up")
      format.field(&line, json: #","client.address":"#, address)
      format.field(&line, json: #","audit.refused":"#, refused)
      format.field(&line, json: #","audit.limited":"#, limited)
      format.end(&line)
    }
  }
}

extension AuditLog {
  /// Writes the sum of refusals that have no line of their own.
  public func write(_ sum: RefusalSums.Sum) {
    guard hasLines else { return }
    sink.append(.refusal) { bytes, format, time in sum.append(to: &bytes, format: format, time: time) }
  }
}
