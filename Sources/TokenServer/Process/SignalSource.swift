import Dispatch
import Glibc

/// Signals as events on a queue, instead of handlers that may do next to nothing.
final class SignalSource {
  private var sources: [any DispatchSourceSignal] = []
  private let queue = DispatchQueue(label: "signals")

  /// Calls `action` for each arrival of the signal from now on, in place of its default.
  func on(_ number: Int32, _ action: @escaping @Sendable () -> Void) {
    // The default action would come first; a Dispatch source hears of ignored signals too.
    signal(number, SIG_IGN)
    let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
    source.setEventHandler(handler: action)
    source.resume()
    sources.append(source)
  }

  /// Blocks until one of these signals arrives.
  func wait(for numbers: [Int32]) {
    let arrived = DispatchSemaphore(value: 0)
    for number in numbers { on(number) { arrived.signal() } }
    arrived.wait()
  }
}
