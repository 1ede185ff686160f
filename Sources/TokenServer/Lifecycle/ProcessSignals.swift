import CPlatform
import Glibc

/// The signals that a serving process acts on: SIGTERM and SIGINT end it, SIGHUP reloads, SIGUSR1 reopens logs. SIGUSR2 is
/// one of them so that it does not end the process, as is its default.
///
/// The signals are blocked from the start of `main`, so that an early signal stays pending instead of ending the
/// process. The main thread receives them by sigwait(3), because the system may not grant another thread.
public enum ProcessSignals {
  private static let all = [SIGHUP, SIGTERM, SIGINT, SIGUSR1, SIGUSR2]

  /// Blocks the signals, so that `next` receives them. Threads inherit the mask, so call it before there are any.
  public static func hold() { mask(SIG_BLOCK, all) }

  /// Restores the usual effect of the signals, for commands that do not serve.
  public static func release() { mask(SIG_UNBLOCK, all) }

  /// Makes SIGTERM and SIGINT end the process with status 0, while there is nothing to drain.
  package static func endAtOnce() {
    // The default action does not work, because process 1 of a container has none.
    setHandler { _ in _exit(0) }
  }

  /// Makes SIGTERM and SIGINT end the process with status 1, so that a second signal does not wait for the drain. No command
  /// that signs outlives it.
  static func exitOnNextSignal() {
    setHandler { _ in
      cplatform_kill_groups()
      _exit(1)
    }
  }

  /// Waits for the next signal and returns its number.
  package static func next() -> Int32 {
    var set = Self.set(all)
    var number: Int32 = 0
    while unsafe sigwait(&set, &number) != 0 {}
    return number
  }

  /// Whether SIGTERM or SIGINT has come, is held, and has not been returned by ``next()``.
  package static var isEndPending: Bool {
    var pending = sigset_t()
    unsafe sigpending(&pending)
    return [SIGTERM, SIGINT].contains { unsafe sigismember(&pending, $0) == 1 }
  }

  private static func setHandler(_ handler: @escaping @convention(c) (Int32) -> Void) {
    for number in [SIGTERM, SIGINT] { signal(number, handler) }
    mask(SIG_UNBLOCK, [SIGTERM, SIGINT])
  }

  private static func mask(_ how: Int32, _ numbers: [Int32]) {
    var set = Self.set(numbers)
    unsafe pthread_sigmask(how, &set, nil)
  }

  private static func set(_ numbers: [Int32]) -> sigset_t {
    var set = sigset_t()
    unsafe sigemptyset(&set)
    for number in numbers { unsafe sigaddset(&set, number) }
    return set
  }
}
