/// Names a bucket: 64 bits of SipHash, keyed afresh in each process.
///
/// Nobody outside can aim for a bucket or for a place in a table. Two of all the keys in a full table are the same once
/// in two thousand million tables: then those two share a bucket.
struct BucketKey: Sendable, Equatable {
  let bits: UInt64

  /// The key of these bits.
  init(bits: UInt64) {
    self.bits = bits
  }

  /// A client's, for all who use it.
  init(client id: String) {
    self.init { $0.combine(id) }
  }

  /// One caller's who uses a client.
  init(client: BucketKey, caller: Caller) {
    self.init {
      $0.combine(client.bits)
      $0.combine(caller)
    }
  }

  /// An address's, whatever it asks for.
  init(address: String) {
    self.init { $0.combine(address) }
  }

  private init(_ fill: (inout Hasher) -> Void) {
    var hasher = Hasher()
    fill(&hasher)
    self.init(bits: UInt64(bitPattern: Int64(hasher.finalize())))
  }
}
