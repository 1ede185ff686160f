import Access

/// API keys: the cost to identify a client by its key, and whether the time reveals configured digests.
enum APIKeys {
  private static let clients = 1000
  private static let keysPerClient = 3
  /// The number of configured digests per measurement, so that their places in memory average out.
  private static let samples = 256

  static func measure() throws -> [Measurement] {
    let ring = try ring()
    let known = Array(key(0).utf8)
    let unknown = Array(key(-1).utf8)
    let count = ring.count
    return [
      Measurement("API key of one in \(count)") { ring.client(presenting: known.span) ?? 0 },
      Measurement("API key of nobody, among \(count)") { ring.client(presenting: unknown.span) ?? 0 },
    ]
  }

  /// Prints the time to look up, and to compare, a digest that shares its first bytes with a configured one: one row
  /// for each number of bytes. The last column is a reference: a comparison byte by byte that stops at the first
  /// difference.
  static func printTiming() throws {
    let ring = try ring()
    print("\nin ns, first bytes right      lookup  comparison  early exit")
    let rows = try [0, 1, 2, 4, 8, 16, 24, 31].map { shared in
      let pairs = try pairs(shared: shared)
      let bytes = pairs.map { (Array($0.0.hexadecimal.utf8), Array($0.1.hexadecimal.utf8)) }
      let row = [
        Measurement("") { pairs.reduce(0) { $0 &+ (ring.client(for: $1.1) ?? 0) } },
        Measurement("") { pairs.reduce(0) { $0 &+ ($1.0 == $1.1 ? 1 : 0) } },
        Measurement("") { bytes.reduce(0) { $0 &+ ($1.0.elementsEqual($1.1) ? 1 : 0) } },
      ].map { $0.nanoseconds / Double(samples) }
      print(column("\(shared)", 23), row.map { column(rounded($0), 11) }.joined(separator: " "))
      return row
    }
    let spreads = (0..<3).map { index in
      let times = rows.map { $0[index] }
      return (times.max() ?? 0) / (times.min() ?? 1)
    }
    print(column("longest ÷ shortest", 23), spreads.map { column(rounded($0), 11) }.joined(separator: " "))
  }

  /// Returns configured digests, each with a digest that shares only the first bytes: every other digit is different.
  private static func pairs(shared: Int) throws -> [(APIKeyDigest, APIKeyDigest)] {
    try (0..<samples).map { index in
      let configured = try digest(of: key(index)).hexadecimal
      let rest = configured.dropFirst(2 * shared).map { $0 == "0" ? "f" : "0" }.joined()
      return (try parsed(configured), try parsed(configured.prefix(2 * shared) + rest))
    }
  }

  private static func rounded(_ value: Double) -> String { "\((value * 100).rounded() / 100)" }

  private static func column(_ text: String, _ width: Int) -> String {
    String(repeating: " ", count: max(0, width - text.count)) + text
  }

  private static func ring() throws -> APIKeyring {
    var ring = APIKeyring()
    for index in 0..<clients * keysPerClient { _ = ring.add(try digest(of: key(index)), for: index / keysPerClient) }
    return ring
  }

  /// Returns a key as long as a real one.
  private static func key(_ index: Int) -> String {
    let number = "\(index)"
    return "mkts_" + String(repeating: "0", count: 49 - number.count) + number
  }

  private static func digest(of key: String) throws -> APIKeyDigest { try APIKeyDigest(of: Array(key.utf8).span) }

  private struct NoDigest: Error {}

  private static func parsed(_ text: some StringProtocol) throws -> APIKeyDigest {
    guard let digest = APIKeyDigest(hexadecimal: String(text)) else { throw NoDigest() }
    return digest
  }
}
