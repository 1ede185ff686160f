/// Which of a file's CAs are outside their time: what they signed is refused.
struct AuthorityLifetimes {
  private var expired: [Int] = []
  private var early: [Int] = []
  private var count = 0

  /// Looks at the certificate at `place`, counted from 0.
  mutating func note(_ authority: borrowing Certificate, _ place: Int) {
    count += 1
    if authority.isExpired { expired.append(place + 1) }
    if authority.isNotYetValid { early.append(place + 1) }
  }

  /// One sentence for each kind of problem, even where a bundle has many of that kind.
  func findings(_ path: String) -> [String] {
    [
      Self.finding(expired, count, "expired, so what they signed is refused; renew or remove them", path),
      Self.finding(early, count, "a date that lies ahead; check the clock and their dates", path),
    ].compactMap { $0 }
  }

  private static func finding(_ places: [Int], _ count: Int, _ fault: String, _ path: String) -> String? {
    guard let first = places.first else { return nil }
    return "\(places.count) of \(count) CA certificates in '\(path)' have \(fault) (the first is certificate \(first))."
  }
}
