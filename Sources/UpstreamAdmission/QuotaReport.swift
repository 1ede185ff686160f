/// What a replica tells the others in each settlement: its requests since the last one, and its demand.
///
/// Times are ages in seconds at the moment of the report, because the replicas' clocks differ.
public struct QuotaReport: Sendable, Equatable {
  /// Requests sent at one time.
  struct Sends: Sendable, Equatable {
    var age: Double
    var count: Int
    var wanted: Int
  }

  /// A 429, and the request that it refused.
  struct Refusal: Sendable, Equatable {
    var sentAge: Double
    var age: Double
    var retryAfter: Double?
  }

  /// The queued requests of a client. Clients are known by a hash of their names.
  struct Demand: Sendable, Equatable {
    var client: UInt64
    var waiting: Int
    /// The client's largest part of the quota, 0 to 1.
    var share: Double
  }

  /// The most clients in a report: 32. Those with the most queued requests count.
  static let mostClients = 32
  /// The most requests in all entries of a report: 4,096. More are not counted.
  static let mostSent = 4096

  var sends: [Sends] = []
  var refusals: [Refusal] = []
  var answers = 0
  var lastAnswer: (sentAge: Double, age: Double) = (0, 0)
  var inFlight = 0
  var waiting = 0
  /// The requests in flight that the replica may have at present.
  var part = 0
  /// How often its traffic has tested the limit of requests in flight, since the start of the process.
  var grown: UInt32 = 0
  /// The team's rate by what the replica has learned while it was alone; 0 for none.
  var known = 0.0
  /// Whether it has met a 429 while it was alone.
  var hasLearned = false
  var demands: [Demand] = []

  /// Creates a report of a replica that does nothing.
  public init() {}

  /// Returns whether two reports are the same on the wire.
  public static func == (left: QuotaReport, right: QuotaReport) -> Bool { left.bytes == right.bytes }
}

/// The bytes of a report: numbers in network order, ages in units of 100 µs.
extension QuotaReport {
  /// The report on the wire.
  public var bytes: [UInt8] {
    var writer = WireWriter()
    writer.append(UInt16(clamping: answers))
    writer.appendAge(lastAnswer.sentAge)
    writer.appendAge(lastAnswer.age)
    writer.append(UInt16(clamping: inFlight))
    writer.append(UInt16(clamping: waiting))
    writer.append(UInt16(clamping: part))
    writer.append(grown)
    writer.append(known)
    writer.append(UInt8(hasLearned ? 1 : 0))
    writer.append(UInt16(clamping: sends.count))
    for entry in sends {
      writer.appendAge(entry.age)
      writer.append(UInt8(clamping: entry.count))
      writer.append(UInt8(clamping: entry.wanted))
    }
    writer.append(UInt8(clamping: refusals.count))
    for refusal in refusals {
      writer.append(UInt32(clamping: Int(min(max(refusal.sentAge, 0), 1e5) * 10_000)))
      writer.appendAge(refusal.age)
      writer.append(refusal.retryAfter.map { UInt16(clamping: Int(min(max($0, 0), 60) * 1000)) } ?? .max)
    }
    writer.append(UInt8(clamping: demands.count))
    for demand in demands {
      writer.append(demand.client)
      writer.append(UInt16(clamping: demand.waiting))
      writer.append(UInt16(clamping: Int(min(max(demand.share, 0), 1) * 10_000)))
    }
    return writer.bytes
  }

  /// Parses a report. Returns nil for anything else.
  public init?(_ bytes: ArraySlice<UInt8>) {
    var reader = WireReader(bytes)
    guard let answers = reader.word(), let sentAge = reader.age(), let age = reader.age(),
      let inFlight = reader.word(), let waiting = reader.word(), let part = reader.word(),
      let grown = reader.number(UInt32.self), let known = reader.double(), let flags = reader.number(UInt8.self),
      let count = reader.word(), count <= TrafficLog.mostSends
    else { return nil }
    self.init()
    (self.answers, lastAnswer) = (answers, (sentAge, age))
    (self.inFlight, self.waiting, self.part, self.grown) = (inFlight, waiting, part, grown)
    (self.known, hasLearned) = (min(known, PacingLimits().mostRate), flags & 1 != 0)
    guard readSends(count, &reader), readRefusals(&reader), readDemands(&reader), reader.isAtEnd else { return nil }
  }

  private mutating func readSends(_ count: Int, _ reader: inout WireReader) -> Bool {
    var sum = 0
    for _ in 0..<count {
      guard let age = reader.age(), let sent = reader.number(UInt8.self), let wanted = reader.number(UInt8.self) else {
        return false
      }
      let counted = min(Int(sent), Self.mostSent - sum)
      sum += counted
      if counted > 0 { sends.append(Sends(age: age, count: counted, wanted: min(Int(wanted), counted))) }
    }
    return true
  }

  private mutating func readRefusals(_ reader: inout WireReader) -> Bool {
    guard let count = reader.number(UInt8.self), count <= TrafficLog.mostRefusals else { return false }
    for _ in 0..<count {
      guard let sentAge = reader.number(UInt32.self), let age = reader.age(), let retryAfter = reader.word() else {
        return false
      }
      refusals.append(
        Refusal(
          sentAge: Double(sentAge) / 10_000, age: age,
          retryAfter: retryAfter == Int(UInt16.max) ? nil : min(Double(retryAfter) / 1000, 60)))
    }
    return true
  }

  private mutating func readDemands(_ reader: inout WireReader) -> Bool {
    guard let count = reader.number(UInt8.self), count <= Self.mostClients else { return false }
    for _ in 0..<count {
      guard let client = reader.number(UInt64.self), let waiting = reader.word(), let share = reader.word() else {
        return false
      }
      demands.append(Demand(client: client, waiting: waiting, share: min(Double(share) / 10_000, 1)))
    }
    return true
  }
}

/// What the leading replica tells the others: the team's pace, and each replica's part of the requests in flight.
struct QuotaAnnouncement: Sendable, Equatable {
  struct Part: Sendable, Equatable {
    var replica: UInt64
    var inFlight: Int
  }

  /// The most replicas with a part: 1,024. Each further one may have one request in flight.
  static let mostParts = 1024

  /// The number of the leader, and of its announcement. Only the highest numbers count.
  var term: UInt32 = 0
  var number: UInt32 = 0
  /// The time of the store until which the leader has judged what the replicas have reported, in seconds.
  var judgedUntil = 0.0
  /// The learned rate in requests a second; 0 before the first 429.
  var rate = 0.0
  /// The present pace of all replicas together.
  var pace = 0.0
  /// When the last pause began and ends, by the store's clock in seconds.
  var pauseBegan = 0.0
  var pauseEnds = 0.0
  /// The most requests in flight of all replicas.
  var limit = 0
  var parts: [Part] = []

  var bytes: [UInt8] {
    var writer = WireWriter()
    writer.append(term)
    writer.append(number)
    for value in [judgedUntil, rate, pace, pauseBegan, pauseEnds] { writer.append(value) }
    writer.append(UInt16(clamping: limit))
    writer.append(UInt16(clamping: parts.count))
    for part in parts {
      writer.append(part.replica)
      writer.append(UInt16(clamping: part.inFlight))
    }
    return writer.bytes
  }

  init() {}

  /// Parses an announcement. Returns nil for anything else, or for values that no replica announces.
  init?(_ bytes: ArraySlice<UInt8>, limits: PacingLimits = PacingLimits()) {
    var reader = WireReader(bytes)
    guard let term = reader.number(UInt32.self), let number = reader.number(UInt32.self),
      let judgedUntil = reader.double(), let rate = reader.double(), let pace = reader.double(),
      let pauseBegan = reader.double(), let pauseEnds = reader.double(),
      let limit = reader.word(), let count = reader.word(), count <= Self.mostParts
    else { return nil }
    (self.term, self.number, self.judgedUntil) = (term, number, judgedUntil)
    (self.pauseBegan, self.limit) = (pauseBegan, limit)
    self.pauseEnds = min(pauseEnds, pauseBegan + limits.mostRetryAfter.inSeconds + 1)
    if rate > 0 {
      self.rate = min(max(rate, limits.leastRate), limits.mostRate)
      // A test after many refusals is slower than any rate.
      self.pace = min(max(pace, 0.05), limits.mostRate)
    }
    for _ in 0..<count {
      guard let replica = reader.number(UInt64.self), let part = reader.word() else { return nil }
      parts.append(Part(replica: replica, inFlight: part))
    }
    guard reader.isAtEnd else { return nil }
  }
}

/// Writes numbers in network order.
struct WireWriter {
  private(set) var bytes: [UInt8] = []

  mutating func append(_ number: some FixedWidthInteger) {
    for shift in stride(from: number.bitWidth - 8, through: 0, by: -8) {
      bytes.append(UInt8(truncatingIfNeeded: number >> shift))
    }
  }

  mutating func append(_ number: Double) { append(number.bitPattern) }

  /// Appends an age in units of 100 µs, 6.5 s at most.
  mutating func appendAge(_ age: Double) { append(UInt16(clamping: Int(min(max(age, 0), 7) * 10_000))) }
}

/// Reads numbers in network order. Every function returns nil at the end of the bytes.
struct WireReader {
  private var rest: ArraySlice<UInt8>

  init(_ bytes: ArraySlice<UInt8>) {
    rest = bytes
  }

  var isAtEnd: Bool { rest.isEmpty }

  mutating func number<Number: FixedWidthInteger>(_: Number.Type) -> Number? {
    let length = Number.bitWidth / 8
    guard rest.count >= length else { return nil }
    defer { rest = rest.dropFirst(length) }
    return rest.prefix(length).reduce(0) { $0 << 8 | Number(truncatingIfNeeded: $1) }
  }

  mutating func word() -> Int? { number(UInt16.self).map { Int($0) } }

  /// Returns a number from 0 to a million millions.
  mutating func double() -> Double? {
    guard let bits = number(UInt64.self) else { return nil }
    let value = Double(bitPattern: bits)
    return value.isFinite && (0...1e12).contains(value) ? value : nil
  }

  mutating func age() -> Double? { word().map { Double($0) / 10_000 } }
}
