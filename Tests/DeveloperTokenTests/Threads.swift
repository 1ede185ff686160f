import Glibc

/// Real threads, all let go at once.
enum Threads {
  /// The results of `body` on `count` threads, without the nils, in the threads' order.
  static func run<Result: Sendable>(_ count: Int, _ body: @escaping @Sendable (Int) -> Result?) -> [Result] {
    let shared = Shared<Result>(count: count, body: body)
    let threads = (0..<count).map { index in
      var thread = pthread_t()
      let argument = unsafe Unmanaged.passRetained(Start(index: index) { shared.run($0) }).toOpaque()
      unsafe pthread_create(&thread, nil, Start.routine, argument)
      return thread
    }
    for thread in threads { pthread_join(thread, nil) }
    return shared.results.compactMap { $0 }
  }

  private final class Start {
    let index: Int
    let body: (Int) -> Void

    init(index: Int, body: @escaping (Int) -> Void) { (self.index, self.body) = (index, body) }

    static let routine: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? = { argument in
      guard let argument = unsafe argument else { return nil }
      let start = unsafe Unmanaged<Start>.fromOpaque(argument).takeRetainedValue()
      start.body(start.index)
      return nil
    }
  }

  @safe private final class Shared<Result: Sendable>: @unchecked Sendable {
    // Sendable because `results` is only written with the lock held, and read after all threads are joined.

    private let barrier = UnsafeMutablePointer<pthread_barrier_t>.allocate(capacity: 1)
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let body: @Sendable (Int) -> Result?
    private(set) var results: [Result?]

    init(count: Int, body: @escaping @Sendable (Int) -> Result?) {
      self.body = body
      results = [Result?](repeating: nil, count: count)
      unsafe pthread_barrier_init(barrier, nil, UInt32(count))
      unsafe pthread_mutex_init(mutex, nil)
    }

    deinit {
      unsafe barrier.deallocate()
      unsafe mutex.deallocate()
    }

    func run(_ index: Int) {
      unsafe pthread_barrier_wait(barrier)
      let result = body(index)
      unsafe pthread_mutex_lock(mutex)
      results[index] = result
      unsafe pthread_mutex_unlock(mutex)
    }
  }
}
