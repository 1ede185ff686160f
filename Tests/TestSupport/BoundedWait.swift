public import Dispatch
import Glibc
public import Testing

/// The time that a test waits for an event that must occur: far longer than the slowest machine needs.
private let patience = Duration.seconds(60)

/// Waits until `condition` is true. After one minute the test fails, with the name of the missing event.
///
/// - Parameter what: The expected event, such as "two connections that wait for content".
public func wait(
  for what: String, sourceLocation: SourceLocation = #_sourceLocation, until condition: () throws -> Bool
) rethrows {
  let end = ContinuousClock.now.advanced(by: patience)
  while try !condition() {
    guard ContinuousClock.now < end else { return fail(what, sourceLocation) }
    sched_yield()
  }
}

extension DispatchGroup {
  /// Waits until the group is empty, as `wait(for:until:)` does.
  public func wait(for what: String, sourceLocation: SourceLocation = #_sourceLocation) {
    if wait(timeout: .now() + .seconds(60)) == .timedOut { fail(what, sourceLocation) }
  }
}

extension DispatchSemaphore {
  /// Waits for a signal, as `wait(for:until:)` does.
  public func wait(for what: String, sourceLocation: SourceLocation = #_sourceLocation) {
    if wait(timeout: .now() + .seconds(60)) == .timedOut { fail(what, sourceLocation) }
  }
}

private func fail(_ what: String, _ sourceLocation: SourceLocation) {
  Issue.record("Waited for \(patience) in vain: \(what).", sourceLocation: sourceLocation)
}
