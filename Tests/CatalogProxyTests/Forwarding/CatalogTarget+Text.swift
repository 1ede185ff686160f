@testable import CatalogProxy

extension CatalogTarget {
  /// Parses a target in origin form, given as text.
  init(
    _ target: String, allowsMe: Bool = true, hasUserToken: Bool = true, limits: TargetLimits = TargetLimits()
  ) throws(TargetRefusal) {
    try self.init(Array(target.utf8), allowsMe: allowsMe, hasUserToken: hasUserToken, limits: limits)
  }

  /// Parses a target in origin form, given as bytes.
  init(
    _ target: [UInt8], allowsMe: Bool = true, hasUserToken: Bool = true, limits: TargetLimits = TargetLimits()
  ) throws(TargetRefusal) {
    let mark = target.firstIndex(of: UInt8(ascii: "?"))
    let path = Array(target[..<(mark ?? target.count)])
    guard let mark else {
      try self.init(path: path.span, query: nil, allowsMe: allowsMe, hasUserToken: hasUserToken, limits: limits)
      return
    }
    let query = Array(target[(mark + 1)...])
    try self.init(path: path.span, query: query.span, allowsMe: allowsMe, hasUserToken: hasUserToken, limits: limits)
  }

  /// The cache key as text.
  var keyText: String { String(decoding: cacheKey, as: UTF8.self) }
}
