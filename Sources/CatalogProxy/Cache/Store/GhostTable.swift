/// The keys of entries that the cache evicted unused, so that it recognises one that returns.
///
/// A table of fixed size in which each fingerprint has one place. Its cost is constant, however many keys pass, and a
/// key that soon returns is most likely still there. If another key takes over a place early, the entry only starts
/// over.
struct GhostTable {
  private var fingerprints: [UInt64]

  /// With room for about as many keys as a store of `maxBytes` has entries.
  init(maxBytes: Int) {
    var count = 256
    while count < maxBytes / 4096, count < 65_536 { count *= 2 }
    fingerprints = Array(repeating: 0, count: count)
  }

  mutating func insert(_ fingerprint: UInt64) {
    fingerprints[place(of: fingerprint)] = fingerprint
  }

  /// Whether it was there; afterwards it is not.
  mutating func remove(_ fingerprint: UInt64) -> Bool {
    let place = place(of: fingerprint)
    guard fingerprint != 0, fingerprints[place] == fingerprint else { return false }
    fingerprints[place] = 0
    return true
  }

  private func place(of fingerprint: UInt64) -> Int {
    Int(truncatingIfNeeded: fingerprint & UInt64(fingerprints.count - 1))
  }
}
