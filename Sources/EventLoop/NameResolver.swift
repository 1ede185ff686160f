import Locks

/// Finds addresses for names without holding up its event loop, and remembers them for a while.
///
/// The system's resolver blocks, so each look-up has a thread of its own. Concurrent requests for the same name share
/// one look-up, so a resolver that hangs blocks one thread for each name.
///
/// Confined to its loop. Only `init` may run elsewhere.
public final class NameResolver: @unchecked Sendable {
  // Sendable by confinement: what another thread finds out comes back by `loop.post`.

  /// How a name is looked up, on a thread that may block.
  public typealias LookUp = @Sendable (_ host: String, _ port: UInt16) throws(ResolutionError) -> [SocketAddress]

  /// The answer to a look-up.
  public typealias Answer = Result<[SocketAddress], ResolutionError>

  /// Addresses that a look-up found earlier.
  struct Memory {
    let addresses: [SocketAddress]
    /// When they were found.
    let found: Deadline
    /// Whether none of them led anywhere the last time.
    var isDoubtful = false
  }

  struct Name: Hashable {
    let host: String
    let port: UInt16
  }

  private let loop: IOLoop
  private let lookUp: LookUp
  var memories: [Name: Memory] = [:]
  private var waiting: [Name: [(Answer) -> Void]] = [:]

  /// A resolver for `loop`, which asks the system.
  public convenience init(loop: IOLoop) {
    self.init(loop: loop) { host, port throws(ResolutionError) in try resolve(host, port: port) }
  }

  /// A resolver for `loop` with a way of its own to look up names.
  public init(loop: IOLoop, lookUp: @escaping LookUp) {
    self.loop = loop
    self.lookUp = lookUp
  }

  /// What is remembered of a name.
  func memory(of host: String, port: UInt16) -> Memory? {
    memories[Name(host: host, port: port)]
  }

  /// Notes that no address of a name leads anywhere: it is to be looked up before those are tried again.
  func doubt(_ host: String, port: UInt16) {
    memories[Name(host: host, port: port)]?.isDoubtful = true
  }

  /// Looks a name up and tells `answer` on the loop, later; a failure leaves what is remembered as it is.
  func find(_ host: String, port: UInt16, _ answer: @escaping (Answer) -> Void) {
    let name = Name(host: host, port: port)
    let isUnderWay = waiting[name] != nil
    waiting[name, default: []].append(answer)
    guard !isUnderWay else { return }
    let (loop, lookUp) = (loop, lookUp)
    do throws(Thread.Refused) {
      _ = try Thread {
        let answer = Answer { () throws(ResolutionError) in try lookUp(host, port) }
        loop.post { self.finish(name, answer) }
      }
    } catch {
      let error = ResolutionError(reason: "the system grants no thread to look up \(host)")
      loop.post { self.finish(name, .failure(error)) }
    }
  }

  private func finish(_ name: Name, _ answer: Answer) {
    if case .success(let addresses) = answer { memories[name] = Memory(addresses: addresses, found: loop.now) }
    for tell in waiting.removeValue(forKey: name) ?? [] { tell(answer) }
  }
}
