import Dispatch
import Glibc
import Testing

/// Real threads, all let go at once.
public enum Threads {
  /// What `body` returns on each of `count` threads, in the threads' order.
  ///
  /// - Throws: What `body` throws on the first thread on which it does; `TestFailure` if the threads do not end.
  public static func run<Value: Sendable>(
    _ count: Int, _ body: @escaping @Sendable (Int) throws -> Value
  ) throws -> [Value] {
    let shared = Shared(count, body)
    shared.gate.enter()
    for index in 0..<count {
      let start = unsafe Unmanaged.passRetained(Start { shared.run(index) })
      var thread = pthread_t()
      guard unsafe pthread_create(&thread, nil, Start.routine, start.toOpaque()) == 0 else {
        unsafe start.release()
        shared.gate.leave()
        throw TestFailure("There is no thread to be had.")
      }
      pthread_detach(thread)
      // The thread waits at the gate, so that it does not leave before this.
      shared.running.enter()
    }
    shared.gate.leave()
    guard shared.running.wait(timeout: .now() + 60) == .success else {
      throw TestFailure("Waited for 60 s in vain: the end of \(count) threads.")
    }
    return try shared.results.compactMap { try $0?.get() }
  }

  private final class Start {
    private let body: () -> Void

    init(_ body: @escaping () -> Void) { self.body = body }

    static let routine: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? = { argument in
      // Safe: it is what was retained for this thread, which alone takes it.
      if let argument = unsafe argument { unsafe Unmanaged<Start>.fromOpaque(argument).takeRetainedValue().body() }
      return nil
    }
  }

  private final class Shared<Value: Sendable>: @unchecked Sendable {
    // Sendable: `results` is written on one queue only, and read after all threads have left `running`.
    let gate = DispatchGroup()
    let running = DispatchGroup()
    private(set) var results: [Result<Value, any Error>?]
    private let body: @Sendable (Int) throws -> Value
    private let writing = DispatchQueue(label: "test.threads")

    init(_ count: Int, _ body: @escaping @Sendable (Int) throws -> Value) {
      self.body = body
      results = Array(repeating: nil, count: count)
    }

    func run(_ index: Int) {
      gate.wait(for: "the start of all threads")
      let result = Result { try body(index) }
      writing.sync { results[index] = result }
      running.leave()
    }
  }
}
