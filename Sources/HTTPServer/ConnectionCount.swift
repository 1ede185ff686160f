import Dispatch
import EventLoop
import Locks

/// How many connections there are, in all and per address, over all loops of a server.
final class ConnectionCount: Sendable {
  private let state = Locked(State())
  private let limits: ServerLimits
  private let group = DispatchGroup()

  private struct State {
    var total = 0
    var admitted = 0
    var perAddress: [IPAddress: Int] = [:]
  }

  init(limits: ServerLimits) {
    self.limits = limits
  }

  enum Admission { case granted, tooMany, tooManyFromAddress }

  /// Counts a connection, unless there are too many. `address` is nil for a connection that is exempt from the limit
  /// per address. `release` takes the same `address`.
  func admit(_ address: IPAddress?) -> Admission {
    state.withLock { state in
      guard state.total < limits.connections else { return .tooMany }
      if let address {
        let count = state.perAddress[address, default: 0]
        guard count < limits.connectionsPerAddress else { return .tooManyFromAddress }
        state.perAddress[address] = count + 1
      }
      state.total += 1
      state.admitted &+= 1
      group.enter()
      return .granted
    }
  }

  /// Counts a connection out.
  func release(_ address: IPAddress?) {
    state.withLock { state in
      state.total -= 1
      guard let address, let count = state.perAddress[address] else { return }
      state.perAddress[address] = count > 1 ? count - 1 : nil
    }
    group.leave()
  }

  /// How many there are, and how many were ever counted in.
  var totals: (open: Int, accepted: Int) { state.withLock { ($0.total, $0.admitted) } }

  /// Blocks until there are none, at most for `timeout`; false if some are left.
  func waitForNone(timeout: Duration) -> Bool {
    group.wait(timeout: .now() + .nanoseconds(Int(clamping: timeout.nanoseconds))) == .success
  }
}

extension Duration {
  /// Whole nanoseconds.
  var nanoseconds: Int64 {
    let (seconds, attoseconds) = components
    let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
    return overflow ? .max : product + attoseconds / 1_000_000_000
  }
}
