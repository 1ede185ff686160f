import Dispatch

/// Sends a byte every now and then, until it is stopped or nobody takes them any more.
final class Dripper {
  private let timer: any DispatchSourceTimer

  init(_ connection: RawConnection) {
    // `RawConnection.send` touches nothing but the descriptor, which does not change.
    nonisolated(unsafe) let connection = connection
    timer = DispatchSource.makeTimerSource(queue: DispatchQueue(label: "drip"))
    timer.setEventHandler { unsafe connection.send("x") }
    timer.schedule(deadline: .now(), repeating: .milliseconds(100))
    timer.resume()
  }

  func stop() { timer.cancel() }
}
