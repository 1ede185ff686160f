import Locks

/// Signs of life of all event loops, for a watchdog.
package enum LoopPulse {
  /// Calls `beat` after each interval until the loops end, on the first of `loops`. A task goes from loop to loop, so a loop
  /// that hangs ends the calls. `beat` must not block.
  package static func start(on loops: [IOLoop], every interval: Duration, _ beat: @escaping @Sendable () -> Void) {
    guard let first = loops.first else { return }
    Task(executorPreference: first) {
      while (try? await first.pause(for: interval)) != nil {
        for loop in loops.dropFirst() {
          let progress = OneShot<Void>()
          guard loop.post({ progress.resume(()) }) else { return }
          await progress.get()
        }
        beat()
      }
    }
  }
}
