/// Faults for the requests that match. They serve clients that cannot send a field or a parameter.
struct FaultRule: Sendable {
  let faults: [Fault]
  /// What the path begins with.
  let path: String
  /// What the query contains; nil for any.
  let query: String?
  /// How many more requests it is for; nil for all.
  var remaining: Int?
  /// How many it was for so far.
  var hits = 0

  func matches(_ request: SandboxRequest) -> Bool {
    remaining != 0 && request.path.hasPrefix(path) && (query.map { (request.query ?? "").contains($0) } ?? true)
  }

  var document: Document {
    .object([
      ("fault", .string(faults.map(\.description).joined(separator: ","))), ("path", .string(path)),
      ("query", query.map { .string($0) }),
      ("remaining", remaining.map { .number($0) }), ("hits", .number(hits)),
    ])
  }
}
