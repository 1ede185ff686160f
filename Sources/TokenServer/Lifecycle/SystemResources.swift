import Dispatch
import EventLoop
import Glibc
import HTTPServer
import Locks
import Memory
import ServerSettings

/// What the process takes from the system before it listens: descriptors and threads.
enum SystemResources {
  /// Checks that the system grants the descriptors that the settings count on. The process may have been given open ones,
  /// and Dispatch ends a process in which it finds none.
  static func checkDescriptors(loops: Int) throws(StartError) {
    let least = DescriptorBudget.least(loops: loops)
    guard Descriptor.areAvailable(least - Self.standardStreams) else {
      throw StartError(
        """
        The server needs \(least) descriptors for server.loops = \(loops), and the system does not grant so many beside \
        those that are open: \(DescriptorBudget.remedy), or fs.file-max, or write fewer loops.
        """)
    }
  }

  private static let standardStreams = 3

  /// Starts a thread for each loop.
  static func startLoops(_ settings: Settings.Server) throws -> [IOLoop] {
    var loops: [IOLoop] = []
    do throws(SocketError) {
      for index in 0..<settings.loops {
        loops.append(try IOLoop.start(label: "loop-\(index)", poller: .init(settings.poller)))
      }
      guard Thread.areAvailable(Self.helpers) else { throw SocketError(call: "pthread_create", code: EAGAIN) }
    } catch {
      guard error.call == "pthread_create" else { throw StartError("An event loop cannot be made: \(error).") }
      throw StartError(
        """
        The system grants this process \(loops.count) of the \(settings.loops + Self.helpers) threads that it needs \
        for server.loops = \(settings.loops): raise the limit of threads (ulimit -u, pids.max) or of memory (ulimit -v), \
        or write fewer loops.
        """)
    }
    return loops
  }

  /// Threads beside those of the loops: for the log, timers, reloads, and name look-ups.
  private static let helpers = 4
}

extension IOLoop.PollerKind {
  fileprivate init(_ poller: Settings.Server.Poller) {
    switch poller {
    case .epoll: self = .epoll
    case .poll: self = .poll
    }
  }
}

/// Returns free memory to the system after a burst, on a thread of its own.
final class HeapTrimmer: Sendable {
  private struct State {
    /// Which of ``delays`` runs; nil while none does.
    var step: Int?
    var generation = 0
  }

  private let state = Locked(State())
  private let queue = DispatchQueue(label: "heap", qos: .utility)

  /// Seconds before each trim, so that one walk through the heap serves a burst that ends in many steps: within the ten
  /// seconds in which memory is to be back, and once more when callers that waited for Apple have gone as well.
  private static let delays = [2, 6, 30]

  /// Trims the heap a little later, and again, once for any number of calls until then.
  func trimSoon() {
    state.withLock { state in
      guard state.step != 0 else { return }
      schedule(0, &state)
    }
  }

  private func schedule(_ step: Int, _ state: inout State) {
    state.step = step
    state.generation += 1
    let generation = state.generation
    queue.asyncAfter(deadline: .now() + .seconds(Self.delays[step])) { self.trim(generation) }
  }

  private func trim(_ generation: Int) {
    guard state.withLock({ generation == $0.generation }) else { return }
    Heap.trim()
    state.withLock { state in
      guard generation == state.generation, let step = state.step else { return }
      if step + 1 < Self.delays.count { schedule(step + 1, &state) } else { state.step = nil }
    }
  }
}
