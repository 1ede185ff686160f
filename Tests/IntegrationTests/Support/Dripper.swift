import Dispatch

/// Sends one byte every 100 ms until `stop`.
final class Dripper {
  private let timer: any DispatchSourceTimer

  init(_ connection: RawConnection) {
    // `RawConnection.send` uses only the descriptor, which does not change.
    nonisolated(unsafe) let connection = connection
    timer = DispatchSource.makeTimerSource(queue: DispatchQueue(label: "drip"))
    timer.setEventHandler { unsafe connection.send("x") }
    timer.schedule(deadline: .now(), repeating: .milliseconds(100))
    timer.resume()
  }

  func stop() { timer.cancel() }
}
