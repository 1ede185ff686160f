@testable import CatalogProxy

extension CatalogTarget {
  /// Parses a target in origin form, given as text.
  init(_ target: String, allowsMe: Bool = true, hasUserToken: Bool = true) throws(TargetRefusal) {
    try self.init(Array(target.utf8), allowsMe: allowsMe, hasUserToken: hasUserToken)
  }

  /// Parses a target in origin form, given as bytes.
  init(_ target: [UInt8], allowsMe: Bool = true, hasUserToken: Bool = true) throws(TargetRefusal) {
    let mark = target.firstIndex(of: UInt8(ascii: "?"))
    let path = Array(target[..<(mark ?? target.count)])
    guard let mark else {
      try self.init(path: path.span, query: nil, allowsMe: allowsMe, hasUserToken: hasUserToken)
      return
    }
    let query = Array(target[(mark + 1)...])
    try self.init(path: path.span, query: query.span, allowsMe: allowsMe, hasUserToken: hasUserToken)
  }

  /// Validates a path and its query.
  init(path: Span<UInt8>, query: Span<UInt8>?, allowsMe: Bool, hasUserToken: Bool) throws(TargetRefusal) {
    do throws(TargetDefect) {
      try self.init(try CatalogPath(path, allowsMe: allowsMe), query: query, hasUserToken: hasUserToken)
    } catch { throw error.refusal }
  }

  /// The cache key as text.
  var keyText: String { String(decoding: cacheKey, as: UTF8.self) }
}
