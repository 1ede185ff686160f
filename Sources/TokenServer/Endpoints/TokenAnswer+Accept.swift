import HTTPServer

extension TokenAnswer.Form {
  /// The form that a request's `Accept` prefers: the first with the highest weight (RFC 9110 §12.4.2). JSON, unless
  /// one of the bare forms is named.
  init(accept request: Request) {
    guard case .single(let value) = request.field("accept"), value.count > 3 else {
      self = .json
      return
    }
    self.init(accept: value)
  }

  init(accept value: some Collection<UInt8>) {
    var best = (form: Self.json, weight: 0)
    for range in value.split(separator: UInt8(ascii: ",")) {
      let parts = range.split(separator: UInt8(ascii: ";")).map { part in
        String(decoding: part, as: UTF8.self).lowercased().filter { $0 != " " && $0 != "\t" }
      }
      guard let form = parts.first.flatMap(Self.named) else { continue }
      let weight = parts.dropFirst().lazy.compactMap(Self.weight).first ?? 1000
      if weight > best.weight { best = (form, weight) }
    }
    self = best.form
  }

  private static func named(_ type: String) -> Self? {
    switch type {
    case "application/jwt": .jwt
    case "text/plain", "text/*": .text
    case "application/json", "application/*", "*/*": .json
    default: nil
    }
  }

  /// `q=0.5` in thousandths; what is malformed counts as not wanted.
  private static func weight(_ parameter: String) -> Int? {
    guard parameter.hasPrefix("q=") else { return nil }
    guard let weight = Double(parameter.dropFirst(2)), (0...1).contains(weight) else { return 0 }
    return Int(weight * 1000)
  }
}
