import EventLoop

/// Waiting, in a task of a loop.
enum Pause {
  /// A task that is cancelled is noticed after so long at most, for a timer does not hear of it.
  private static let slice = Duration.milliseconds(100)

  /// Returns after so long, or soon after the task is cancelled.
  static func pass(_ duration: Duration, on loop: IOLoop) async {
    guard duration > .zero else { return }
    let timer = loop.openTimer()
    defer { timer.close() }
    let end = Deadline.now.advanced(by: duration)
    while Deadline.now < end, !Task.isCancelled {
      _ = await timer.pause(until: min(end, Deadline.now.advanced(by: slice)))
    }
  }
}
