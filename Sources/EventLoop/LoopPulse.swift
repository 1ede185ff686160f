/// Reports at intervals that every event loop makes progress, for a watchdog.
///
/// A letter goes from loop to loop, and each loop has to pass it on. A loop that hangs keeps it, so the reports end.
public final class LoopPulse: ChannelDelegate, @unchecked Sendable {
  // Sendable by confinement: the state is used only on the first loop.

  private let loops: [IOLoop]
  private let interval: Duration
  private let beat: @Sendable () -> Void
  private var isUnderWay = false
  private(set) var intervals = 0

  private init(_ loops: [IOLoop], every interval: Duration, _ beat: @escaping @Sendable () -> Void) {
    self.loops = loops
    self.interval = interval
    self.beat = beat
  }

  /// Calls `beat` once in each interval until the loops end, on the first of `loops`, if all loops have made progress.
  /// `beat` must not block.
  @discardableResult
  public static func start(
    on loops: [IOLoop], every interval: Duration, _ beat: @escaping @Sendable () -> Void
  ) -> LoopPulse {
    let pulse = LoopPulse(loops, every: interval, beat)
    loops.first?.post {
      if let loop = loops.first { pulse.sleep(loop.openTimer()) }
    }
    return pulse
  }

  /// Handles the end of an interval.
  public func channel(_ channel: Channel, became readiness: Readiness) {
    channel.loop.assertCurrent()
    // The loop has ended.
    guard readiness == .timedOut else { return }
    intervals += 1
    if !isUnderWay {
      isUnderWay = true
      pass(to: 1)
    }
    sleep(channel)
  }

  private func sleep(_ channel: Channel) {
    channel.sleep(until: channel.loop.now.advanced(by: interval), self)
  }

  private func pass(to index: Int) {
    guard index == loops.count else { return _ = loops[index].post { self.pass(to: index + 1) } }
    loops.first?.post {
      self.isUnderWay = false
      self.beat()
    }
  }
}
