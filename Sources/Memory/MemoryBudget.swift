import CPlatform
import Locks

/// The limit on the memory that peers and the upstream make the process hold, and its current use.
///
/// Memory is charged here before the server keeps it across a wait, and is released with its owner. Work that ends within
/// one turn of a loop is not charged: it has the loop's few buffers.
///
/// A dynamic threshold grants memory (Choudhury and Hahne, 1998): a holder may have up to ``share`` times the memory
/// that is still free outside of the ``reserve``. One greedy address therefore gets two thirds of that memory, and two
/// greedy addresses get two fifths each. The reserve is for holders with at most ``smallHolding``, under the same
/// threshold. Half of the reserve is only for their connections. So an address that holds little is still served beside a
/// hundred greedy ones. Granted memory stays granted.
public final class MemoryBudget: Sendable {
  /// The owner of a charge: the bits of an IPv6 address or network.
  public typealias Holder = UInt128

  /// The purpose of a charge.
  public enum Purpose: Int, Sendable, CaseIterable {
    /// An open connection with its TLS or HTTP/2 session.
    case connection
    /// A header section or content that is not complete yet.
    case request
    /// A response that the peer has not received yet.
    case response
    /// A caller that waits for the upstream.
    case waiting
    /// Content of the upstream that the server is collecting.
    case upstream
  }

  /// The maximum number of charged bytes.
  public let limit: Int
  /// The bytes that only holders with at most ``smallHolding`` may take: for health checks, tokens and short responses.
  public let reserve: Int
  /// The most bytes of a holder that takes from the reserve: a few requests at once, or over TLS at least a handshake.
  let smallHolding: Int
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

  /// The factor between the free memory and the maximum of one holder.
  fileprivate static let share = 2
  /// The smallest fall in bytes that is worth a walk through the allocator's heaps, or a sixteenth of the budget if less.
  private static let leastFall = 4 << 20

  /// Creates a budget of `limit` bytes.
  /// - Parameter isWorthTrimming: Called when it is time to return free memory to the system, on that thread: the use has
  ///   fallen by a quarter of its peak since the last call, or a charge is refused.
  public init(limit: Int, isWorthTrimming: @escaping @Sendable () -> Void = {}) {
    self.limit = limit
    reserve = limit / 8
    smallHolding = max(limit / 128, 64 << 10)
    self.isWorthTrimming = isWorthTrimming
  }

  /// Returns a budget without a limit, which only counts.
  public static func unlimited() -> MemoryBudget { MemoryBudget(limit: .max / 4) }

  /// Charges `bytes` to `holder`. Nil stands for trusted proxies and for the server itself, which have no share.
  /// - Returns: False if the charge is refused. Then nothing is charged, and the caller must not keep the memory.
  public func charge(_ bytes: Int, to holder: Holder?, for purpose: Purpose) -> Bool {
    let isGranted = state.withLock { charge(bytes, to: holder, for: purpose, &$0) }
    if !isGranted { isWorthTrimming() }
    return isGranted
  }

  private func charge(_ bytes: Int, to holder: Holder?, for purpose: Purpose, _ state: inout State) -> Bool {
    let place = holder.flatMap { state.holders.index(forKey: $0) }
    guard allows(bytes, to: holder, at: place, for: purpose, state) else {
      state.refusals[purpose.rawValue] += 1
      return false
    }
    state.add(bytes, to: holder, at: place)
    return true
  }

  /// Charges memory that is already held and can no longer be refused.
  public func force(_ bytes: Int, to holder: Holder?) { state.withLock { $0.add(bytes, to: holder) } }

  /// Releases `bytes` that were charged to `holder`.
  public func release(_ bytes: Int, of holder: Holder?) {
    let hasFallen = state.withLock { state in
      state.add(-bytes, to: holder)
      return noteFall(&state)
    }
    if hasFallen { isWorthTrimming() }
  }

  /// Charges an array that several owners may hold to the first one. The caller keeps the array until ``release(shared:)``,
  /// so that no other array gets its address.
  public func charge(shared array: [UInt8], to holder: Holder?) -> Bool {
    let key = Self.address(of: array)
    let isGranted = state.withLock { state in
      if state.shared[key] != nil {
        state.shared[key]?.references += 1
        return true
      }
      guard charge(array.count, to: holder, for: .response, &state) else { return false }
      state.shared[key] = Shared(references: 1, bytes: array.count, holder: holder)
      return true
    }
    if !isGranted { isWorthTrimming() }
    return isGranted
  }

  /// Releases one charge of ``charge(shared:to:)``. The last release also releases the array's bytes.
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
    let fall = state.peak - state.used
    guard fall >= state.peak / 4, fall >= min(Self.leastFall, limit / 16) else { return false }
    state.peak = state.used
    return true
  }

  /// The number of charged bytes.
  public var used: Int { state.withLock { $0.used } }

  /// Returns the number of bytes that are charged to one holder.
  public func held(by holder: Holder) -> Int { state.withLock { $0.holders[holder] ?? 0 } }

  /// Returns the number of refused charges for this purpose.
  public func refusals(for purpose: Purpose) -> Int { state.withLock { $0.refusals[purpose.rawValue] } }

  /// Returns whether the budget grants the charge. `place` is where the holder's bytes are; nil if it has none.
  private func allows(
    _ bytes: Int, to holder: Holder?, at place: Dictionary<Holder, Int>.Index?, for purpose: Purpose,
    _ state: borrowing State
  ) -> Bool {
    guard bytes > 0 else { return true }
    let free = limit - state.used
    // Connections have their own limits, also per address, so they may take everything except the reserve.
    if purpose == .connection, free - bytes >= reserve { return true }
    guard holder != nil else { return purpose == .connection ? bytes <= free : free - bytes >= reserve }
    let held = place.map { state.holders.values[$0] } ?? 0
    let isSmall = held + bytes <= smallHolding
    let available = free - (!isSmall ? reserve : purpose == .connection ? 0 : reserve / 2)
    return bytes <= available && held + bytes <= Self.share * (available - bytes)
  }
}

extension MemoryBudget.State {
  fileprivate mutating func add(_ bytes: Int, to holder: MemoryBudget.Holder?) {
    add(bytes, to: holder, at: holder.flatMap { holders.index(forKey: $0) })
  }

  /// Adds to the bytes of a holder, which are at this place if it has some: each look-up is a hash.
  fileprivate mutating func add(
    _ bytes: Int, to holder: MemoryBudget.Holder?, at place: Dictionary<MemoryBudget.Holder, Int>.Index?
  ) {
    used += bytes
    peak = max(peak, used)
    guard let holder else { return }
    guard let place else { return holders[holder] = bytes > 0 ? bytes : nil }
    holders.values[place] += bytes
    if holders.values[place] <= 0 { holders.remove(at: place) }
  }
}

/// The C allocator, the source of all memory of Swift, OpenSSL and nghttp2.
public enum Heap {
  /// Makes the allocator return large blocks to the system when they are freed. By default it raises its threshold with the
  /// size of freed blocks, and keeps blocks of up to 32 MiB. Call it once, at the start.
  public static func returnLargeBlocks() { cplatform_return_large_blocks() }

  /// Returns free pages to the system. Other threads cannot allocate meanwhile: call it after a burst, and not on a loop.
  public static func trim() { cplatform_trim_heap() }
}

/// The charge of one owner to a budget, released with the owner, and confined to its thread.
public final class MemoryHold {
  private let budget: MemoryBudget
  private var holder: MemoryBudget.Holder?
  /// The number of charged bytes.
  public private(set) var bytes = 0

  /// Creates an empty hold for `holder`.
  public init(_ budget: MemoryBudget, for holder: MemoryBudget.Holder?) {
    (self.budget, self.holder) = (budget, holder)
  }

  deinit { if bytes > 0 { budget.release(bytes, of: holder) } }

  /// Moves the charge to another holder: a proxy's connection serves one client after another.
  public func move(to holder: MemoryBudget.Holder?) {
    guard holder != self.holder else { return }
    if bytes > 0 {
      budget.force(bytes, to: holder)
      budget.release(bytes, of: self.holder)
    }
    self.holder = holder
  }

  /// Changes the charge to `count` bytes. Returns false, and changes nothing, if the growth is refused.
  public func resize(to count: Int, for purpose: MemoryBudget.Purpose) -> Bool {
    guard count > bytes else {
      force(to: count)
      return true
    }
    guard budget.charge(count - bytes, to: holder, for: purpose) else { return false }
    bytes = count
    return true
  }

  /// Changes the charge to `count` bytes, even beyond the budget, because the memory is already held.
  public func force(to count: Int) {
    if count > bytes { budget.force(count - bytes, to: holder) }
    if count < bytes { budget.release(bytes - count, of: holder) }
    bytes = count
  }
}
