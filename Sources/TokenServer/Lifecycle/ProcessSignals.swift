import Glibc

/// The signals that a serving process acts on: SIGTERM and SIGINT end it, SIGHUP reloads.
///
/// They are blocked from the first moment of `main` on, so that one that comes early waits instead of ending the
/// process. The main thread takes them by sigwait(3): that needs no other thread, which the system may not grant.
public enum ProcessSignals {
  /// Holds them back until `next` takes them. Threads inherit that: to be called before there are any.
  public static func hold() { change(SIG_BLOCK) }

  /// Gives them their usual effect again: for commands that do not serve.
  public static func release() { change(SIG_UNBLOCK) }

  /// Has SIGTERM and SIGINT end the process in good order: for as long as there is nothing to drain.
  static func endAtOnce() {
    // Not the default action: process 1 of a container has none.
    setHandler { _ in _exit(0) }
  }

  /// Has SIGTERM and SIGINT end the process with 1: a second one does not wait for the drain.
  static func abort() { setHandler { _ in _exit(1) } }

  /// Waits for the next one.
  static func next() -> Int32 {
    var set = Self.set([SIGHUP, SIGTERM, SIGINT])
    var number: Int32 = 0
    while unsafe sigwait(&set, &number) != 0 {}
    return number
  }

  private static func setHandler(_ handler: @escaping @convention(c) (Int32) -> Void) {
    for number in [SIGTERM, SIGINT] { signal(number, handler) }
    var set = Self.set([SIGTERM, SIGINT])
    unsafe pthread_sigmask(SIG_UNBLOCK, &set, nil)
  }

  private static func change(_ how: Int32) {
    var set = Self.set([SIGHUP, SIGTERM, SIGINT])
    unsafe pthread_sigmask(how, &set, nil)
  }

  private static func set(_ numbers: [Int32]) -> sigset_t {
    var set = sigset_t()
    unsafe sigemptyset(&set)
    for number in numbers { unsafe sigaddset(&set, number) }
    return set
  }
}

/// Which release of the program this is.
public enum Release {
  /// Its version (semver.org).
  public static let version: StaticString = "0.1.0"
}
