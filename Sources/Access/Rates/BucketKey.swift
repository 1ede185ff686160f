/// Names a bucket: 64 bits of SipHash, keyed afresh in each process.
///
/// A caller cannot choose its bucket or its place in a table, because the key of the hash is secret. In one of two
/// thousand million full tables, two keys are equal: those two callers then share a bucket.
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
