import Locks

/// How much memory peers and the upstream may make the process hold, and how much they do.
///
/// What a connection, a request or a response takes is charged here before it is kept over a wait, and released with
/// it. Work that ends within one turn of a loop is not charged: its buffers belong to the loop, and there are few.
///
/// Memory is granted by a dynamic threshold (Choudhury and Hahne, 1998): a holder may take up to
/// ``share`` times what is still free. One greedy address therefore gets two thirds of the budget, two get two fifths
/// each, and an address that holds little is always served. The growth that would exceed the budget is refused, so
/// the newest and greediest lose, and what was granted stays.
public final class MemoryBudget: @unchecked Sendable {
  // Sendable: `state` is touched only under `lock`; all else never changes.

  /// For whom memory is held: the bits of an IPv6 address or network.
  public typealias Holder = UInt128

  /// What memory is held for.
  public enum Purpose: Int, Sendable, CaseIterable {
    /// An open connection with its TLS or HTTP/2 session.
    case connection
    /// A head or content that is not complete yet.
    case request
    /// A response that the peer has not taken yet.
    case response
    /// A caller who waits for the upstream.
    case waiting
    /// Content of the upstream that is being collected.
    case upstream
  }

  /// Bytes that may be held.
  public let limit: Int
  /// Bytes that only connections and small charges may take, of holders who have less than a quarter of the budget, so
  /// that health checks, tokens and short responses go on when everything else is refused.
  public let reserve: Int

  private let lock = Mutex()
  private var state = State()
  private let useFell: @Sendable () -> Void

  fileprivate struct State {
    var used = 0
    var peak = 0
    var holders: [Holder: Int] = [:]
    var shared: [UInt: Shared] = [:]
    var refusals = [Int](repeating: 0, count: Purpose.allCases.count)
  }

  fileprivate struct Shared {
    var references: Int
    let bytes: Int
    let holder: Holder?
  }

  /// How many times what is free one holder may take.
  fileprivate static let share = 2

  /// What counts as a small charge: a request that waits, with its task.
  fileprivate static let smallest = 24 << 10

  /// A fall by less than this returns too little memory to be worth a walk through the allocator's heaps.
  private static let leastFall = 8 << 20

  /// A budget of `limit` bytes.
  /// - Parameter useFell: Called when the use has fallen to less than half of its peak since the last call, on
  ///   whatever thread released the memory: the time to return free memory to the system.
  public init(limit: Int, useFell: @escaping @Sendable () -> Void = {}) {
    self.limit = limit
    reserve = limit / 8
    self.useFell = useFell
  }

  /// A budget without a bound, which only counts.
  public static func unlimited() -> MemoryBudget { MemoryBudget(limit: .max / 4) }

  // MARK: Charges

  /// Charges `bytes` to `holder`; nil stands for trusted proxies and for the server itself, which have no share.
  /// - Returns: False if they are refused. Nothing is charged then, and nothing may be kept.
  public func charge(_ bytes: Int, to holder: Holder?, for purpose: Purpose) -> Bool {
    lock.withLock {
      guard state.allows(bytes, to: holder, for: purpose, limit: limit, reserve: reserve) else {
        state.refusals[purpose.rawValue] += 1
        return false
      }
      state.add(bytes, to: holder)
      return true
    }
  }

  /// Charges what is held already and cannot be refused any more.
  public func force(_ bytes: Int, to holder: Holder?) {
    lock.withLock { state.add(bytes, to: holder) }
  }

  /// Releases what was charged.
  public func release(_ bytes: Int, of holder: Holder?) {
    let hasFallen = lock.withLock {
      state.add(-bytes, to: holder)
      return noteFall()
    }
    if hasFallen { useFell() }
  }

  // MARK: Shared arrays

  /// Whether `count` bytes would be granted to `holder` now. Counts a refusal if not.
  public func wouldGrant(_ bytes: Int, to holder: Holder?, for purpose: Purpose) -> Bool {
    lock.withLock {
      let isAllowed = state.allows(bytes, to: holder, for: purpose, limit: limit, reserve: reserve)
      if !isAllowed { state.refusals[purpose.rawValue] += 1 }
      return isAllowed
    }
  }

  /// Charges an array that several may hold: only the first is charged. Released by ``release(shared:)``; the caller
  /// keeps the array until then, so that its address stays its own.
  public func charge(shared array: [UInt8], to holder: Holder?) -> Bool {
    let key = Self.address(of: array)
    return lock.withLock {
      if state.shared[key] != nil {
        state.shared[key]?.references += 1
        return true
      }
      guard state.allows(array.count, to: holder, for: .response, limit: limit, reserve: reserve) else {
        state.refusals[Purpose.response.rawValue] += 1
        return false
      }
      state.add(array.count, to: holder)
      state.shared[key] = Shared(references: 1, bytes: array.count, holder: holder)
      return true
    }
  }

  /// Releases an array charged by ``charge(shared:to:)``; with its last holder its bytes.
  public func release(shared array: [UInt8]) {
    let key = Self.address(of: array)
    let hasFallen = lock.withLock {
      guard let entry = state.shared[key] else { return false }
      if entry.references > 1 {
        state.shared[key]?.references -= 1
        return false
      }
      state.shared[key] = nil
      state.add(-entry.bytes, to: entry.holder)
      return noteFall()
    }
    if hasFallen { useFell() }
  }

  private static func address(of array: [UInt8]) -> UInt {
    // Safe: only the number is used.
    unsafe array.withUnsafeBufferPointer { UInt(bitPattern: $0.baseAddress) }
  }

  private func noteFall() -> Bool {
    guard state.used <= state.peak / 2, state.peak - state.used >= Self.leastFall else { return false }
    state.peak = state.used
    return true
  }

  // MARK: Figures

  /// Bytes that are charged.
  public var used: Int { lock.withLock { state.used } }

  /// Bytes that are charged to one holder.
  public func held(by holder: Holder) -> Int { lock.withLock { state.holders[holder] ?? 0 } }

  /// How many charges for this purpose were refused.
  public func refusals(for purpose: Purpose) -> Int { lock.withLock { state.refusals[purpose.rawValue] } }
}

extension MemoryBudget.State {
  fileprivate func allows(
    _ bytes: Int, to holder: MemoryBudget.Holder?, for purpose: MemoryBudget.Purpose, limit: Int, reserve: Int
  ) -> Bool {
    guard bytes > 0 else { return true }
    let free = limit - used
    guard bytes <= free else { return false }
    let held = holder.map { holders[$0] ?? 0 }
    let isSmall = purpose == .connection || bytes <= MemoryBudget.smallest
    if isSmall, (held ?? 0) + bytes <= limit / 4 { return true }
    // Connections have a limit of their own; they may take all but the reserve.
    if purpose == .connection { return free - bytes >= reserve }
    let available = free - reserve
    guard bytes <= available else { return false }
    guard let held else { return true }
    return held + bytes <= MemoryBudget.share * (available - bytes)
  }

  fileprivate mutating func add(_ bytes: Int, to holder: MemoryBudget.Holder?) {
    used += bytes
    peak = max(peak, used)
    guard let holder else { return }
    let held = (holders[holder] ?? 0) + bytes
    holders[holder] = held > 0 ? held : nil
  }
}
