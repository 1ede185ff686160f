/// Which part of a list is asked for.
struct Paging: Sendable {
  let limit: Int
  let offset: Int

  /// Reads `limit` and `offset`.
  ///
  /// Throws Apple's error for a limit outside of 1 and `maximum`, or what is no number.
  init(_ query: Query, standard: Int, maximum: Int, offsetBelow bound: Int? = nil) throws(AppleError) {
    limit = try Self.number(query["limit"], "limit", 1...maximum) ?? standard
    offset = try Self.number(query["offset"], "offset", 0...Int(Int32.max)) ?? 0
    if let bound, offset >= bound { throw .invalidParameter("offset", "offset must be less than \(bound)") }
  }

  /// The first page of a relationship inside of a resource, where `limit[name]` says how long it is.
  init(_ rule: RelationshipRule, _ query: Query) throws(AppleError) {
    let name = "limit[\(rule.name)]"
    limit = try Self.number(query[name], name, 1...rule.maximumLimit) ?? rule.defaultLimit
    offset = 0
  }

  private static func number(
    _ text: String?, _ parameter: String, _ range: ClosedRange<Int>
  ) throws(AppleError) -> Int? {
    guard let text else { return nil }
    guard let number = Int(text) else {
      throw .invalidParameter(parameter, "Value must be an integer, but was: \(text.prefix(32))")
    }
    guard number >= range.lowerBound else {
      throw .invalidParameter(
        parameter, "Value must be an integer greater than or equal to \(range.lowerBound), but was: \(number)")
    }
    guard number <= range.upperBound else {
      throw .invalidParameter(
        parameter, "Value must be an integer less than or equal to \(range.upperBound), but was: \(number)")
    }
    return number
  }

  /// The elements of this page.
  func page<Element>(of list: [Element]) -> ArraySlice<Element> {
    list.dropFirst(offset).prefix(limit)
  }

  /// Where the next page begins; nil if this one is the last.
  func nextOffset(count: Int) -> Int? {
    let (end, overflow) = offset.addingReportingOverflow(limit)
    return !overflow && end < count ? end : nil
  }
}
