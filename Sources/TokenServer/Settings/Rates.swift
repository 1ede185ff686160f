import Access

/// `rateLimit`: how often callers may ask.
struct Rates: Sendable, Equatable {
  /// Whom `perSecond` and `burst` count by themselves.
  enum Unit: String, Sendable, CaseIterable {
    /// Each address.
    case address
    /// Each `sub` of a JWT; the address for a caller without one.
    case sub
  }

  var each: Rate?
  var total: Rate?
  var unit: Unit

  /// Nil if it is faulty.
  init?(_ object: inout ObjectReader) {
    let isEach = object.has("perSecond") || object.has("burst")
    let each = isEach || !object.has("total") ? Self.rate(&object) : nil
    let total = object.object("total", remedy: "write { perSecond: 50, burst: 200 }") { Self.rate(&$0) }
    guard let unit = object.read("per", SettingType<Unit>.word, default: .sub) else { return nil }
    (self.each, self.total, self.unit) = (each, total, unit)
  }

  private static func rate(_ object: inout ObjectReader) -> Rate? {
    if !object.has("perSecond") {
      object.fault("perSecond", problem: "is not set", remedy: "write how many requests a second, such as 5")
    }
    let perSecond = object.read(
      "perSecond", .number(Rate.perSecondRange, remedy: "write requests per second, from 0.01 to 1000000"))
    let burst = object.read("burst", .integer(Rate.burstRange))
    guard let perSecond else { return nil }
    return Rate(perSecond: perSecond, burst: burst ?? max(1, Int(perSecond.rounded(.up))))
  }
}
