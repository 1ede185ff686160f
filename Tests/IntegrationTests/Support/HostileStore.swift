import TestSupport

/// A store of replicas that does harm. It ends with the last reference.
final class HostileStore {
  let url: String
  private let process: ChildProcess

  /// Starts a store; `Tests/Python/hostile_store.py` lists the modes.
  init(_ mode: String) throws {
    process = try ChildProcess(Repository.python, [Repository.script("hostile_store.py"), mode])
    guard let port = try process.line().flatMap({ UInt16($0) }) else {
      throw TestFailure("The store has not started: \(process.standardError)")
    }
    url = "redis://127.0.0.1:\(port)"
  }

  /// Waits until the store has done harm so many times, since the start.
  func wait(for count: Int) throws {
    while true {
      guard let number = try process.line().flatMap({ Int($0) }) else {
        throw TestFailure("The store has ended: \(process.standardError)")
      }
      if number >= count { return }
    }
  }
}
