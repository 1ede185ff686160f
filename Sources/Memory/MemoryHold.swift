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
