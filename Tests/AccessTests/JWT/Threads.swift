import Glibc

/// Real threads, side by side.
enum Threads {
  /// The results of `body` on `count` threads, in the threads' order.
  static func run(_ count: Int, _ body: @escaping @Sendable (Int) -> Int) -> [Int] {
    let starts = (0..<count).map { index in Start { body(index) } }
    let threads = starts.map { start in
      var thread = pthread_t()
      unsafe pthread_create(&thread, nil, Start.routine, Unmanaged.passUnretained(start).toOpaque())
      return thread
    }
    for thread in threads { pthread_join(thread, nil) }
    return starts.map(\.result)
  }

  private final class Start {
    private(set) var result = 0
    private let body: () -> Int

    init(_ body: @escaping () -> Int) { self.body = body }

    static let routine: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? = { argument in
      guard let argument = unsafe argument else { return nil }
      // Safe: whoever has started the thread keeps this until it has joined it.
      let start = unsafe Unmanaged<Start>.fromOpaque(argument).takeUnretainedValue()
      start.result = start.body()
      return nil
    }
  }
}
