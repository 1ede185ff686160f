import Bytes
import Cryptography

/// The name of a bucket: two bits for its table, and 62 of an HMAC or, in a process alone, of a hash.
struct BucketID: Hashable, Sendable {
  /// What a bucket counts. The values are part of the format.
  enum Kind: UInt8, Sendable {
    /// The requests of one caller of a client.
    case caller = 0
    /// The requests of all callers of a client.
    case total = 1
    /// The failed credentials of an address.
    case failure = 2
  }

  let bits: UInt64

  init(_ kind: Kind, code: UInt64) { bits = code >> 2 | UInt64(kind.rawValue) << 62 }

  /// Creates an ID that came from outside. Returns nil if no bucket has it.
  init?(bits: UInt64) {
    guard bits >> 62 <= 2 else { return nil }
    self.bits = bits
  }

  /// The end of its key at the store: little endian, as in the arguments of scripts.
  var bytes: [UInt8] {
    var bytes: [UInt8] = []
    bytes.append(littleEndian: bits)
    return bytes
  }

  var table: Int { Int(bits >> 62) }
}

/// What a bucket of the group is about, in the form of which the ID is an HMAC.
struct BucketName {
  private let kind: BucketID.Kind
  private var message: [UInt8]

  private init(_ kind: BucketID.Kind, client: String, _ bucket: TokenBucket) {
    self.kind = kind
    message = [kind.rawValue]
    // A changed rate begins with another bucket: its debts are in units of its interval.
    message.append(littleEndian: UInt64(bitPattern: bucket.interval))
    message.append(littleEndian: UInt64(bucket.capacity))
    append(client.utf8)
  }

  static func caller(_ caller: Caller, of client: String, _ bucket: TokenBucket) -> BucketName {
    var name = BucketName(.caller, client: client, bucket)
    let kind: UInt8 = if case .address = caller { 1 } else { 2 }
    name.message.append(kind)
    name.append(caller.bytes.bytes)
    return name
  }

  static func total(of client: String, _ bucket: TokenBucket) -> BucketName {
    BucketName(.total, client: client, bucket)
  }

  static func failure(from address: String, _ bucket: TokenBucket) -> BucketName {
    var name = BucketName(.failure, client: "", bucket)
    name.append(address.utf8)
    return name
  }

  /// Appends a part with its length before it, so that no two names have the same bytes.
  private mutating func append(_ part: some Collection<UInt8>) {
    message.append(littleEndian: UInt64(part.count))
    message.append(contentsOf: part)
  }

  /// Returns the ID, which is the same on each replica.
  func id(_ authenticator: MessageAuthenticator) -> BucketID {
    let code = authenticator.code(of: message.span)
    return BucketID(kind, code: (0..<8).reduce(0) { $0 << 8 | UInt64(code[$1]) })
  }
}

/// What a replica tells the store about its buckets, for ``SharedRateScripts/settlement``.
package struct RateSettlement: Sendable, Equatable {
  /// Its number; the store runs each only once.
  package let sequence: UInt64
  /// 32 bytes for each bucket, little endian: ID, cost, ahead, and the largest debt, the times in microseconds.
  package private(set) var buckets: [UInt8] = []

  private static let stride = 32
  /// The value of `ahead` for a bucket that was only asked for. Lua counts exactly up to 2^53.
  private static let never: Int64 = -(1 << 52)

  init(sequence: UInt64, count: Int) {
    self.sequence = sequence
    buckets.reserveCapacity(count * Self.stride)
  }

  /// Appends a bucket. The times are nanoseconds. Microseconds are rounded up, so a replica never tells less.
  mutating func append(_ id: BucketID, cost: Int64, ahead: Int64?, mostDebt: Int64) {
    buckets.append(littleEndian: id.bits)
    buckets.append(littleEndian: UInt64(bitPattern: cost.microseconds))
    buckets.append(littleEndian: UInt64(bitPattern: max(ahead?.microseconds ?? Self.never, Self.never)))
    buckets.append(littleEndian: UInt64(bitPattern: mostDebt.microseconds))
  }
}

/// The debts of buckets, as the store replies and publishes them: 16 bytes each, the ID and the debt in microseconds.
struct RateDebts: Sequence, IteratorProtocol {
  struct Debt {
    let id: BucketID
    /// The time until the bucket is full; nil if the store has no number for it.
    let nanoseconds: Int64?
  }

  private static let stride = 16
  /// The largest debt that a sum can have: 36 years.
  private static let most = Int64.max / 8 / 1000

  private var rest: ArraySlice<UInt8>

  /// Reads debts, which come from outside. Returns nil if the bytes are none, or too many.
  init?(_ bytes: ArraySlice<UInt8>) {
    guard bytes.count % Self.stride == 0, bytes.count <= RateBuckets.mostSettled * Self.stride else { return nil }
    rest = bytes
  }

  /// The number of debts; it includes those with an ID that no bucket has.
  var count: Int { rest.count / Self.stride }

  mutating func next() -> Debt? {
    while rest.count >= Self.stride {
      let bytes = rest.prefix(Self.stride)
      rest = rest.dropFirst(Self.stride)
      guard let id = BucketID(bits: UInt64(littleEndian: bytes.prefix(8))) else { continue }
      let debt = Int64(bitPattern: UInt64(littleEndian: bytes.suffix(8)))
      return Debt(id: id, nanoseconds: debt < 0 ? nil : Swift.min(debt, Self.most) * 1000)
    }
    return nil
  }
}

/// The tokens that a strict client's caller needs from the store, for ``SharedRateScripts/strict``.
package struct StrictTake: Sendable {
  struct Part {
    let policy: ServiceLimit.Policy
    let id: BucketID
    let bucket: TokenBucket
    let mostDebt: Int64
    /// The debt that a store which came back may have lost.
    let knownDebt: Int64
  }

  let parts: [Part]

  /// The ends of the buckets' keys.
  package var names: [[UInt8]] { parts.map(\.id.bytes) }

  /// 40 bytes for each bucket, little endian: ID, interval, the largest debt that leaves a token, the largest debt of
  /// all, and the debt that the replica knows of, in microseconds.
  package var buckets: [UInt8] {
    var bytes: [UInt8] = []
    for part in parts {
      bytes.append(littleEndian: part.id.bits)
      bytes.append(littleEndian: UInt64(part.bucket.interval.microseconds))
      // Rounded down, so that the store never takes a token that is not there.
      bytes.append(littleEndian: UInt64((part.bucket.span - part.bucket.interval) / 1000))
      bytes.append(littleEndian: UInt64(part.mostDebt.microseconds))
      bytes.append(littleEndian: UInt64(part.knownDebt.microseconds))
    }
    return bytes
  }
}

/// The store's decision about a ``StrictTake``. It comes from outside.
package struct StrictReply: Sendable, Equatable {
  package let isTaken: Bool
  /// The debt of each bucket before, in microseconds.
  package let debts: [Int64]

  package init(isTaken: Bool, debts: [Int64]) { (self.isTaken, self.debts) = (isTaken, debts) }
}

extension Int64 {
  /// Nanoseconds as microseconds, rounded up.
  var microseconds: Int64 { self > 0 ? (self - 1) / 1000 + 1 : self / 1000 }
}

extension UInt64 {
  /// The number in eight bytes, or fewer.
  fileprivate init(littleEndian bytes: ArraySlice<UInt8>) { self = bytes.reversed().reduce(0) { $0 << 8 | UInt64($1) } }
}

extension [UInt8] {
  /// Appends a number as eight bytes.
  mutating func append(littleEndian number: UInt64) {
    for shift in stride(from: 0, to: 64, by: 8) { append(UInt8(truncatingIfNeeded: number >> UInt64(shift))) }
  }
}

/// The scripts that the store runs for the rates of a group, in Lua 5.1.
///
/// A bucket is a key with the moment when it is full, in microseconds of the store's clock, and expires a second after
/// that. Its name is the first key of a script, followed by the eight bytes of the ID. All numbers are whole and below
/// 2^53, so Lua counts them exactly. Scripts do not change a key with another kind of value, another program's.
package enum SharedRateScripts {
  /// Settles a replica's buckets once, and publishes their debts.
  ///
  /// Keys: the beginning of the names of buckets. Arguments: the replica, the number of the settlement, the channel, the
  /// beginning of the message, and ``RateSettlement/buckets``.
  ///
  /// Reply: ``RateDebts``. A debt is -1 if the key is another program's.
  package static let settlement: StaticString = """
    local base, buckets = KEYS[1], ARGV[5]
    local time = redis.call('TIME')
    local now = time[1] * 1000000 + time[2]
    local names = {}
    for at = 1, #buckets, 32 do names[#names + 1] = base .. string.sub(buckets, at, at + 7) end
    local done = base .. 'settled:' .. ARGV[1]
    local isNew = redis.call('GET', done) ~= ARGV[2]
    if isNew then redis.call('SET', done, ARGV[2], 'PX', 60000) end
    local stored = redis.call('MGET', unpack(names))
    local debts = {}
    for index, name in ipairs(names) do
      local id, cost, ahead, most = struct.unpack('<c8i8i8i8', buckets, index * 32 - 31)
      local old = tonumber(stored[index] or 0)
      local debt = -1
      if old then
        if not (old <= now + most) then old = now + most end
        local full = math.max(old + cost, now + ahead)
        debt = math.max(full - now, 0)
        if isNew and full > old then
          local value, life = string.format('%.0f', full), string.format('%.0f', math.ceil(debt / 1000) + 1000)
          if stored[index] then
            redis.call('SET', name, value, 'PX', life)
          elseif not redis.call('SET', name, value, 'PX', life, 'NX') then
            debt = -1
          end
        end
      end
      debts[index] = struct.pack('<c8i8', id, debt)
    end
    local message = table.concat(debts)
    if isNew then redis.pcall('PUBLISH', ARGV[3], ARGV[4] .. message) end
    return message
    """

  /// Takes a token of all given buckets, or of none, and publishes their debts.
  ///
  /// Keys: the names of the buckets. Arguments: the channel, the beginning of the message, and ``StrictTake/buckets``.
  ///
  /// Reply: 1 if the tokens are taken, else 0; and the debt of each bucket before, in microseconds. A debt beyond the
  /// largest, as after the store's clock went back, is lowered at the store as well: only then it is repaid.
  package static let strict: StaticString = """
    local time = redis.call('TIME')
    local now = time[1] * 1000000 + time[2]
    local reply, taken = {1}, {}
    for index, name in ipairs(KEYS) do
      local id, interval, room, most, known = struct.unpack('<c8i8i8i8i8', ARGV[3], index * 40 - 39)
      local old = tonumber(redis.call('GET', name) or 0)
      if not old then return redis.error_reply('WRONGTYPE This key is no bucket') end
      local debt = math.max(old - now, 0)
      if not (debt <= most) then
        debt = most
        redis.call(
          'SET', name, string.format('%.0f', now + most), 'PX', string.format('%.0f', math.ceil(most / 1000) + 1000))
      end
      debt = math.max(debt, known)
      if debt > room then reply[1] = 0 end
      reply[index + 1] = debt
      taken[index] = {id, debt + interval}
    end
    if reply[1] == 1 then
      local debts = {}
      for index, name in ipairs(KEYS) do
        local id, debt = unpack(taken[index])
        redis.call(
          'SET', name, string.format('%.0f', now + debt), 'PX', string.format('%.0f', math.ceil(debt / 1000) + 1000))
        debts[index] = struct.pack('<c8i8', id, debt)
      end
      redis.pcall('PUBLISH', ARGV[1], ARGV[2] .. table.concat(debts))
    end
    return reply
    """
}
