public import Dispatch
import Glibc
public import Testing

/// The time that a test waits for an event that must occur, from the moment at which it begins to wait: far longer than
/// the slowest machine needs.
public let patience = Duration.seconds(60)

/// Waits until `condition` is true. The test fails after `patience`, with the name of the missing event.
///
/// The thread rests between two looks at the condition, so a test that waits takes no processor time from what it waits
/// for. `Tests/run` gives each group of tests a process, so the thread belongs to this test alone.
///
/// - Parameter what: The expected event, such as "two connections that wait for content".
public func wait(
  for what: String, sourceLocation: SourceLocation = #_sourceLocation, until condition: () throws -> Bool
) rethrows {
  var looks = Looks()
  while try !condition() {
    guard let rest = looks.rest() else { return fail(what, sourceLocation) }
    pause(rest)
  }
}

/// Waits until `condition` is true, as `wait(for:until:)` does, and throws if it never is: for what the rest of the test
/// needs.
///
/// - Parameter what: The expected event as a clause, such as "two requests reach the emulator".
@available(*, noasync, message: "An asynchronous test waits with `until`, so that its thread serves other tasks.")
public func eventually(_ what: String, _ condition: () throws -> Bool) throws {
  var looks = Looks()
  while try !condition() {
    guard let rest = looks.rest() else { throw TestFailure("It never happened within \(patience) that \(what).") }
    pause(rest)
  }
}

/// Waits until `condition` is true, in a test that is asynchronous, and throws if it never is.
public func until(_ what: String, _ condition: () async throws -> Bool) async throws {
  var looks = Looks()
  while try await !condition() {
    guard let rest = looks.rest() else { throw TestFailure("It never happened within \(patience) that \(what).") }
    try await Task.sleep(for: rest)
  }
}

/// Waits until the task is cancelled.
public func waitForCancellation() async {
  // A day: it ends earlier only by cancellation.
  try? await Task.sleep(for: .seconds(86_400))
}

/// The times at which a condition is looked at, until `patience` is over: the rests between them grow from 50 µs to
/// 10 ms, and are never shorter than the look before, which may have been a request.
private struct Looks {
  private let end = ContinuousClock.now.advanced(by: patience)
  private var next = Duration.microseconds(50)
  private var began = ContinuousClock.now

  /// How long to rest before the next look; nil after the last one.
  mutating func rest() -> Duration? {
    let now = ContinuousClock.now
    guard now < end else { return nil }
    let rest = max(next, now - began)
    next = min(next * 2, .milliseconds(10))
    began = now.advanced(by: rest)
    return rest
  }
}

private func pause(_ rest: Duration) {
  var time = timespec(tv_sec: 0, tv_nsec: Int(rest / .nanoseconds(1)))
  unsafe nanosleep(&time, nil)
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
