/// Values that are costly to make, by key. Above its limit it forgets all of them.
package final class Memo<Key: Hashable & Sendable, Value: Sendable>: Sendable {
  private let limit: Int
  private let state = Locked<(values: [Key: Value], cost: Int)>(([:], 0))

  /// Creates a memo for values with this sum of costs. A value that replaces another adds its cost to it.
  package init(limit: Int) { self.limit = limit }

  /// The value of a key; nil if it is unknown or forgotten.
  package subscript(key: Key) -> Value? { state.withLock { $0.values[key] } }

  /// Remembers a value in place of the present one of its key.
  package func remember(_ value: Value, for key: Key, cost: Int = 1) {
    state.withLock { state in
      if state.cost + cost > limit { state = ([:], 0) }
      state.values[key] = value
      state.cost += cost
    }
  }
}
