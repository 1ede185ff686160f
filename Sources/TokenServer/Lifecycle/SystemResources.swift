import Dispatch
import EventLoop
import Glibc
import HTTPServer
import Locks
import Memory
import ServerSettings

/// The resources that the process needs before it listens: descriptors and threads.
enum SystemResources {
  /// Checks that the system grants the descriptors that the settings need. The process may have inherited open ones,
  /// and Dispatch aborts a process in which it finds no free one.
  static func checkDescriptors(loops: Int) throws(StartError) {
    let least = DescriptorBudget.least(loops: loops)
    // The standard streams, and the process's own folder of procfs, are open.
    guard Descriptor.areAvailable(least - 4) else {
      throw StartError(
        """
        The server needs \(least) more descriptors than are open for server.loops = \(loops), and the system does not \
        grant so many: \(DescriptorBudget.remedy), or fs.file-max, or write fewer loops.
        """)
    }
  }

  struct Loops {
    var `public`: [IOLoop] = []
    /// The loop of the admin listener, so that probes do not wait behind requests; nil without one.
    var admin: IOLoop?

    var all: [IOLoop] { `public` + [admin].compactMap(\.self) }
  }

  static func startLoops(_ settings: Settings.Server, hasAdmin: Bool) throws -> Loops {
    var loops = Loops()
    do throws(SocketError) {
      for index in 0..<settings.loops {
        loops.public.append(try IOLoop.start(label: "loop-\(index)", poller: settings.poller))
      }
      if hasAdmin { loops.admin = try IOLoop.start(label: "admin", poller: settings.poller) }
      guard Thread.areAvailable(Self.helpers) else { throw SocketError(call: "pthread_create", code: EAGAIN) }
    } catch {
      guard error.call == "pthread_create" else {
        throw StartError("The server cannot create an event loop: \(error).")
      }
      throw StartError(
        """
        The system grants this process \(loops.all.count) of the \(settings.loops + Self.helpers) threads that it needs \
        for server.loops = \(settings.loops): raise the limit of threads (ulimit -u, pids.max) or of memory (ulimit -v), \
        or write fewer loops.
        """)
    }
    return loops
  }

  /// The threads besides those of the public loops: for the admin listener, log, timers, reloads, and name look-ups.
  private static let helpers = 5
}

/// Returns free memory to the system after a burst, on its own thread.
final class HeapTrimmer: Sendable {
  private struct State {
    /// The index of the present delay in ``delays``; nil if none runs.
    var step: Int?
    var generation = 0
  }

  private let state = Locked(State())
  private let queue = DispatchQueue(label: "heap", qos: .utility)

  /// The seconds before each trim. One walk through the heap then serves a burst that ends in many steps. The first two
  /// return memory within ten seconds, as required; the last follows callers that waited for Apple.
  private static let delays = [2, 6, 30]

  /// Schedules all trims. Further calls before the first trim have no effect.
  func trimSoon() { state.withLock { if $0.step != 0 { schedule(0, &$0) } } }

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
