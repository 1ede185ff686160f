import Locks

/// The listeners of all loops on one passed socket, which get its connections in turn.
///
/// Each loop may accept a connection from the common queue. Without turns, the loop that wakes first would take all
/// connections that wait after a restart, and keep them.
final class ListenerGroup: Sendable {
  struct Member {
    let loop: IOLoop
    let listener: Listener
  }

  private struct State {
    var members: [Member] = []
    /// The number of listeners that have not joined yet.
    var missing: Int
    var turns = 0
  }

  private let state: Locked<State>

  init(of count: Int) {
    state = Locked(State(missing: count))
  }

  /// Adds a listener, on its loop. The call that completes the group returns all members, which may then accept.
  func join(_ listener: Listener, on loop: IOLoop) -> [Member] {
    state.withLock { state in
      state.members.append(Member(loop: loop, listener: listener))
      state.missing -= 1
      return state.missing == 0 ? state.members : []
    }
  }

  func leave(_ listener: Listener) {
    state.withLock { state in state.members.removeAll { $0.listener === listener } }
  }

  /// Returns the member whose turn it is, or nil if all have left.
  func next() -> Member? {
    state.withLock { state in
      guard !state.members.isEmpty else { return nil }
      state.turns = (state.turns + 1) % state.members.count
      return state.members[state.turns]
    }
  }
}
