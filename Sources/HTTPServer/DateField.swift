import Glibc
import HTTP1

/// The value of `Date`, made once a second.
struct DateField {
  private(set) var value: [UInt8] = []
  private var second = -1

  init() {
    update()
  }

  /// Reads the clock: one call of the vDSO.
  mutating func update() {
    let now = Glibc.time(nil)
    guard now != second else { return }
    second = now
    value.removeAll(keepingCapacity: true)
    HTTPDate(secondsSinceEpoch: now).append(to: &value)
  }
}
