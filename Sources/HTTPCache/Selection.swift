import Bytes
import Glibc
public import HTTP1

/// A stored response at a moment.
public struct Selection: Sendable {
  /// The response.
  public let response: StoredResponse
  /// The age (`current_age`, RFC 9111 §4.2.3) in seconds.
  public let age: Int
  /// The remaining freshness lifetime in seconds. 0 or less if the response is stale.
  public let timeToLive: Int

  /// Evaluates `response` at `now`.
  public init(_ response: StoredResponse, now: CacheTime) {
    self.response = response
    age = min(
      response.judged.age.initial + now.seconds(since: response.judged.source.receivedAt), FieldText.mostSeconds)
    timeToLive = response.judged.freshness.lifetime - age
  }

  /// Whether the response may be used without validation (RFC 9111 §4.2), before the caller's directives apply.
  public var isFresh: Bool { timeToLive > 0 && !response.judged.freshness.noCache }

  /// Returns whether the response may be served if the upstream fails (RFC 5861 §4, RFC 9111 §4.2.4). A caller's own
  /// `stale-if-error` overrides the response's limit.
  public func mayServeOnError(_ request: RequestDirectives) -> Bool {
    guard !request.noCache, !response.judged.freshness.noCache else { return false }
    if isFresh { return true }
    return !response.judged.freshness.forbidsStale
      && -timeToLive < request.staleIfError ?? response.judged.freshness.staleIfError
  }

  /// Returns whether the response may be served while the upstream is slow to validate it. A caller with `max-age` or
  /// `min-fresh` does not get it.
  public func mayServeWhileWaiting(_ request: RequestDirectives) -> Bool {
    request.maxAge == nil && request.minFresh == nil && mayServeOnError(request)
  }

  /// Returns the fields that differ on each send: the origin's Date (RFC 9110 §6.6.1), Age and Cache-Status. A response
  /// that was not validated just now needs an Age, even 0 (RFC 9111 §5.1).
  public func fields(_ status: CacheStatus, isValidated: Bool) -> FieldSection {
    var section = FieldSection.empty
    // Date takes 37 bytes, Age 28 at most, and the rest of Cache-Status 16.
    section.reserveRoom(for: 81 + status.mostBytes)
    let date = response.date
    section.append(date: date.span)
    if age > 0 || !isValidated { section.append("Age", upTo: 21) { $0.append(decimal: age) } }
    section.append("Cache-Status", upTo: status.mostBytes) { status.append(to: &$0) }
    return section
  }

  /// Returns how the cache may use this response for a request with these directives.
  package func use(for request: RequestDirectives) -> Lookup {
    let isYoungEnough = request.maxAge.map { age <= $0 } ?? true
    let isWanted = !request.noCache && isYoungEnough
    if isFresh {
      if isWanted, timeToLive >= request.minFresh ?? 0 { return .hit(self) }
      return request.onlyIfCached ? .unsatisfiable : .validate(self, .request)
    }
    if isWanted, request.minFresh == nil, !response.judged.freshness.forbidsStale {
      if let most = request.maxStale, -timeToLive <= most { return .hit(self) }
      // max-age without max-stale requires a fresh response (RFC 9111 §5.2.1.1).
      if request.maxAge == nil, -timeToLive < response.judged.freshness.staleWhileRevalidate {
        return .staleWhileRevalidate(self)
      }
    }
    return request.onlyIfCached ? .unsatisfiable : .validate(self, .stale)
  }
}

/// The member of this cache in `Cache-Status` (RFC 9211), a structured field (RFC 8941).
public struct CacheStatus: Sendable, Equatable {
  /// The way in which the request was handled.
  public enum Handling: Sendable, Equatable {
    case hit
    /// The proxy sent an upstream request.
    case forwarded(ForwardReason)
    /// Neither, because the caller forbids an upstream request.
    case unforwarded
  }

  /// The way in which the request was handled.
  public var handling: Handling
  /// The upstream status, if the caller receives a different status.
  public var forwardStatus: Int?
  /// The remaining freshness lifetime in seconds. Negative if the response is stale.
  public var timeToLive: Int?
  /// Whether the response was stored.
  public var isStored = false
  /// Whether one upstream request served several requests.
  public var isCollapsed = false
  /// More information for people.
  public var detail: String?

  /// Creates the member for a request.
  public init(_ handling: Handling, timeToLive: Int? = nil) {
    self.handling = handling
    self.timeToLive = timeToLive
  }

  /// The member in the syntax of the field.
  public var fieldValue: String {
    var value: [UInt8] = []
    value.append(addingCapacity: mostBytes) { (output: inout OutputSpan<UInt8>) in append(to: &output) }
    return String(decoding: value, as: UTF8.self)
  }

  /// The most bytes of the member: all parameters with the longest numbers (117), and each character of `detail` escaped.
  var mostBytes: Int { 128 + 2 * (detail?.utf8.count ?? 0) }

  /// Appends the member in the syntax of the field. Traps without room for ``mostBytes``.
  func append(to value: inout OutputSpan<UInt8>) {
    value.append("musickit-token-server")
    switch handling {
    case .hit: value.append("; hit")
    case .forwarded(let reason):
      value.append("; fwd=")
      value.append(utf8: reason.rawValue)
    case .unforwarded: value.append("; detail=\"only-if-cached\"")
    }
    if let forwardStatus { value.append("; fwd-status=", Self.integer(forwardStatus)) }
    if let timeToLive { value.append("; ttl=", Self.integer(timeToLive)) }
    if isStored { value.append("; stored") }
    if isCollapsed { value.append("; collapsed") }
    if let detail {
      value.append("; detail=\"")
      Self.append(detail, to: &value)
      value.append("\"")
    }
  }

  /// Limits an integer to the 15 digits of a structured field (RFC 8941 §3.3.1).
  private static func integer(_ number: Int) -> Int { min(max(number, -999_999_999_999_999), 999_999_999_999_999) }

  /// Appends the content of a String of a structured field. Characters other than printable ASCII (RFC 8941 §3.3.3)
  /// become `?`.
  private static func append(_ text: String, to value: inout OutputSpan<UInt8>) {
    for scalar in text.unicodeScalars {
      if scalar == "\"" || scalar == "\\" { value.append(UInt8(ascii: "\\")) }
      value.append((0x20...0x7e).contains(scalar.value) ? UInt8(ascii: scalar) : UInt8(ascii: "?"))
    }
  }
}

extension OutputSpan<UInt8> {
  mutating func append(_ parameter: StaticString, _ number: Int) {
    append(parameter)
    append(decimal: number)
  }
}

/// A moment by the monotonic clock, and by the wall clock that servers write into `Date`. Ages grow by the monotonic clock
/// (RFC 9111 §4.2.3 resident time), so wall clock steps do not change freshness.
public struct CacheTime: Sendable, Equatable {
  /// Nanoseconds of a monotonic clock with any start.
  public var monotonic: Int
  /// Seconds since 1970-01-01 00:00:00 UTC.
  public var wall: Int

  /// Creates a moment on both clocks.
  public init(monotonic: Int, wall: Int) { (self.monotonic, self.wall) = (monotonic, wall) }

  /// The present moment by the clocks of the operating system.
  public static var now: CacheTime {
    var monotonic = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &monotonic)
    return CacheTime(monotonic: monotonic.tv_sec * 1_000_000_000 + monotonic.tv_nsec, wall: Glibc.time(nil))
  }

  /// Returns whole seconds since `earlier` by the monotonic clock. Returns 0 if `earlier` is later.
  func seconds(since earlier: CacheTime) -> Int {
    let (nanoseconds, overflow) = monotonic.subtractingReportingOverflow(earlier.monotonic)
    return overflow ? 0 : max(nanoseconds, 0) / 1_000_000_000
  }

  /// Returns by how many seconds the wall clock was set forward since `earlier`. Negative if it was set back.
  package func wallClockStep(since earlier: CacheTime) -> Int {
    let (passed, overflow) = wall.subtractingReportingOverflow(earlier.wall)
    let step = passed.subtractingReportingOverflow(seconds(since: earlier))
    return overflow || step.overflow ? .max : step.partialValue
  }
}
