import CPlatform
import Locks

/// How much memory peers and the upstream may make the process hold, and how much they do.
///
/// What a connection, a request or a response takes is charged here before it is kept over a wait, and released with
/// it. Work that ends within one turn of a loop is not charged: its buffers belong to the loop, and there are few.
///
/// Memory is granted by a dynamic threshold (Choudhury and Hahne, 1998): a holder may take up to ``share`` times what
/// is still free outside of the ``reserve``. One greedy address therefore gets two thirds of that, two get two fifths
/// each. The reserve is for holders that have no more than ``smallHolding``, under the same threshold, and half of it
/// for their connections only. So beside a hundred greedy addresses, one that holds little is served. The growth that
/// would exceed the budget is refused: the newest and greediest lose, and what was granted stays.
public final class MemoryBudget: Sendable {
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
  /// Bytes that only holders of no more than ``smallHolding`` may take, so that health checks, tokens and short responses
  /// go on when everything else is refused.
  public let reserve: Int
  /// How much a holder may have who takes from the reserve: a few requests at once, over TLS one handshake at least.
  public let smallHolding: Int

  private let state = Locked(State())
  private let isWorthTrimming: @Sendable () -> Void

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

  /// A fall by less than this, or than a sixteenth of the budget, returns too little memory to be worth a walk through the
  /// allocator's heaps.
  private static let leastFall = 8 << 20

  /// A budget of `limit` bytes.
  /// - Parameter isWorthTrimming: Called when the use has fallen to less than half of its peak since the last call, and
  ///   when a charge is refused, on the thread that released or asked: the time to return free memory to the system.
  public init(limit: Int, isWorthTrimming: @escaping @Sendable () -> Void = {}) {
    self.limit = limit
    reserve = limit / 8
    smallHolding = max(limit / 128, 64 << 10)
    self.isWorthTrimming = isWorthTrimming
  }

  /// A budget without a bound, which only counts.
  public static func unlimited() -> MemoryBudget { MemoryBudget(limit: .max / 4) }

  // MARK: Charges

  /// Charges `bytes` to `holder`; nil stands for trusted proxies and for the server itself, which have no share.
  /// - Returns: False if they are refused. Nothing is charged then, and nothing may be kept.
  public func charge(_ bytes: Int, to holder: Holder?, for purpose: Purpose) -> Bool {
    let isGranted = state.withLock { state in
      guard allows(bytes, to: holder, for: purpose, state) else {
        state.refusals[purpose.rawValue] += 1
        return false
      }
      state.add(bytes, to: holder)
      return true
    }
    if !isGranted { isWorthTrimming() }
    return isGranted
  }

  /// Charges what is held already and cannot be refused any more.
  public func force(_ bytes: Int, to holder: Holder?) {
    state.withLock { $0.add(bytes, to: holder) }
  }

  /// Releases what was charged.
  public func release(_ bytes: Int, of holder: Holder?) {
    let hasFallen = state.withLock { state in
      state.add(-bytes, to: holder)
      return noteFall(&state)
    }
    if hasFallen { isWorthTrimming() }
  }

  // MARK: Shared arrays

  /// Charges an array that several may hold: only the first is charged. Released by ``release(shared:)``; the caller
  /// keeps the array until then, so that its address stays its own.
  public func charge(shared array: [UInt8], to holder: Holder?) -> Bool {
    let key = Self.address(of: array)
    let isGranted = state.withLock { state in
      if state.shared[key] != nil {
        state.shared[key]?.references += 1
        return true
      }
      guard allows(array.count, to: holder, for: .response, state) else {
        state.refusals[Purpose.response.rawValue] += 1
        return false
      }
      state.add(array.count, to: holder)
      state.shared[key] = Shared(references: 1, bytes: array.count, holder: holder)
      return true
    }
    if !isGranted { isWorthTrimming() }
    return isGranted
  }

  /// Releases an array charged by ``charge(shared:to:)``; with its last holder its bytes.
  public func release(shared array: [UInt8]) {
    let key = Self.address(of: array)
    let hasFallen = state.withLock { state in
      guard let entry = state.shared[key] else { return false }
      if entry.references > 1 {
        state.shared[key]?.references -= 1
        return false
      }
      state.shared[key] = nil
      state.add(-entry.bytes, to: entry.holder)
      return noteFall(&state)
    }
    if hasFallen { isWorthTrimming() }
  }

  private static func address(of array: [UInt8]) -> UInt {
    // Safe: only the number is used.
    unsafe array.withUnsafeBufferPointer { UInt(bitPattern: $0.baseAddress) }
  }

  private func noteFall(_ state: inout State) -> Bool {
    guard state.used <= state.peak / 2, state.peak - state.used >= min(Self.leastFall, limit / 16) else { return false }
    state.peak = state.used
    return true
  }

  // MARK: Figures

  /// Bytes that are charged.
  public var used: Int { state.withLock { $0.used } }

  /// Bytes that are charged to one holder.
  public func held(by holder: Holder) -> Int { state.withLock { $0.holders[holder] ?? 0 } }

  /// How many charges for this purpose were refused.
  public func refusals(for purpose: Purpose) -> Int { state.withLock { $0.refusals[purpose.rawValue] } }

  /// Whether the charge is granted.
  private func allows(_ bytes: Int, to holder: Holder?, for purpose: Purpose, _ state: borrowing State) -> Bool {
    guard bytes > 0 else { return true }
    let free = limit - state.used
    // Connections have limits of their own, per address too: they may take everything but the reserve.
    if purpose == .connection, free - bytes >= reserve { return true }
    guard let holder else { return purpose == .connection ? bytes <= free : free - bytes >= reserve }
    let held = state.holders[holder] ?? 0
    let isSmall = held + bytes <= smallHolding
    let available = free - (!isSmall ? reserve : purpose == .connection ? 0 : reserve / 2)
    return bytes <= available && held + bytes <= Self.share * (available - bytes)
  }
}

extension MemoryBudget.State {
  fileprivate mutating func add(_ bytes: Int, to holder: MemoryBudget.Holder?) {
    used += bytes
    peak = max(peak, used)
    guard let holder else { return }
    let held = (holders[holder] ?? 0) + bytes
    holders[holder] = held > 0 ? held : nil
  }
}

/// The C allocator, from which all memory of Swift, OpenSSL and nghttp2 comes.
public enum Heap {
  /// Has large blocks returned to the system when they are freed. Without it the allocator raises its threshold with the
  /// size of what was freed, and keeps blocks of up to 32 MiB for itself. Call it once, at the start.
  public static func returnLargeBlocks() { cplatform_return_large_blocks() }

  /// Returns free pages to the system, those between blocks in use too. Stops other threads' allocations for a moment:
  /// after a burst, and not on a loop.
  public static func trim() { cplatform_trim_heap() }
}

/// What one owner holds of a budget, released with the owner.
///
/// Confined to its owner's thread, like the memory that it stands for.
public final class MemoryHold {
  private let budget: MemoryBudget
  private var holder: MemoryBudget.Holder?
  /// Bytes that are charged.
  public private(set) var bytes = 0

  /// Nothing yet, for `holder`.
  public init(_ budget: MemoryBudget, for holder: MemoryBudget.Holder?) {
    self.budget = budget
    self.holder = holder
  }

  deinit { if bytes > 0 { budget.release(bytes, of: holder) } }

  /// Charges what is held to another: a proxy's connection serves one client after the other.
  public func move(to holder: MemoryBudget.Holder?) {
    guard holder != self.holder else { return }
    if bytes > 0 {
      budget.force(bytes, to: holder)
      budget.release(bytes, of: self.holder)
    }
    self.holder = holder
  }

  /// Changes what is charged to `count` bytes.
  /// - Returns: False if the growth is refused. What was charged before stays so.
  public func resize(to count: Int, for purpose: MemoryBudget.Purpose) -> Bool {
    if count > bytes {
      guard budget.charge(count - bytes, to: holder, for: purpose) else { return false }
    } else if count < bytes {
      budget.release(bytes - count, of: holder)
    }
    bytes = count
    return true
  }

  /// Changes what is charged to `count` bytes, beyond the budget if need be: for what is held already.
  public func force(to count: Int) {
    if count > bytes { budget.force(count - bytes, to: holder) }
    if count < bytes { budget.release(bytes - count, of: holder) }
    bytes = count
  }
}
