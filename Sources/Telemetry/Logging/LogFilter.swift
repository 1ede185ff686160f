public import Logging
import Synchronization
public import Tracing

/// Which lines a log has. A reload may change it at any time, and every line asks it, so there is no lock.
public final class LogFilter: Sendable {
  private let leastLevel: Atomic<Int>
  /// The bits of the part of all requests that have a line.
  private let accessPart: Atomic<UInt64>

  /// Creates a filter.
  ///
  /// - Parameter access: The part of the requests without an error that have an access line, from 0 to 1.
  public init(level: Logger.Level = .info, access: Double = 1) {
    leastLevel = Atomic(Self.index(of: level))
    accessPart = Atomic(access.bitPattern)
  }

  /// Changes what the log has from now on.
  public func set(level: Logger.Level, access: Double) {
    leastLevel.store(Self.index(of: level), ordering: .relaxed)
    accessPart.store(access.bitPattern, ordering: .relaxed)
  }

  /// In order. `allCases` makes a new array each time.
  private static let levels = Logger.Level.allCases

  private static func index(of level: Logger.Level) -> Int { levels.firstIndex(of: level) ?? 0 }

  /// The least severe level that the log has.
  public var level: Logger.Level { Self.levels[leastLevel.load(ordering: .relaxed)] }

  /// Whether the log has lines of requests and decisions at all.
  public var hasRequests: Bool { leastLevel.load(ordering: .relaxed) <= Self.info }
  private static let info = index(of: .info)

  /// Returns whether a request has an access line. Errors always have one. The choice depends on the trace, by the rule of
  /// spans, so that services with one part have lines of the same requests.
  public func hasAccessLine(status: Int, of trace: RequestTrace) -> Bool {
    guard hasRequests else { return false }
    let part = Double(bitPattern: accessPart.load(ordering: .relaxed))
    return part >= 1 || status >= 400 || Sampler(.ratio(part), isParentBased: false).records(trace)
  }
}
