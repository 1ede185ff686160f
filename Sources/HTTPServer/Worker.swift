import EventLoop
import Glibc
import HTTP1
import HTTPMessages
import HTTPTypes
import Memory
import TLS
import Tracing

/// A server's part on one event loop: its listeners, its connections, and the objects that busy connections borrow.
final class Worker: Listener.Owner, @unchecked Sendable {
  // Sendable by confinement: made by the server, then used only on its loop.
  let loop: IOLoop
  private let loops: Int
  let sharedLimits: SharedLimits
  var limits: ServerLimits { sharedLimits.values }
  let observer: any ExchangeObserver
  let configuration: Server.Configuration

  var router: Router
  var tls: TLSContext?
  /// Strict-Transport-Security in responses over TLS, as the fields of a response that has no others.
  var strictTransportSecurity: HTTPFields
  private(set) var stage = Stage.serving

  enum Stage: Comparable {
    case serving
    /// Every response is its connection's last, unless the next request has already arrived.
    case draining
    /// No new requests are expected: idle connections close.
    case closing
  }

  let count: ConnectionCount
  private(set) var listeners: [Listener] = []
  /// The open connections. Each knows its index.
  private(set) var connections: [Connection] = []
  private var arrivals = 0
  /// The last turn of the loop in which a listener was crowded.
  private var crowdedTurn = -1
  /// The index of the connection that is looked at next when room is needed, in turn over all of them.
  private var nextPlace = 0
  var waiting = ExpensiveWork<any AwaitedTurn>()
  /// Whether requests on deprioritised connections have been late for longer than a burst.
  var latenessOfDeprioritised = Lateness()
  /// Whether some of `waiting` begins at the end of this turn or of the next one.
  var takesTurns = false
  /// The number of deprioritised connections, for each address with such connections.
  var deprioritisedOfAddress: [MemoryBudget.Holder: Int] = [:]

  /// The connections with responses to be sent at the end of the turn.
  private(set) var unsent: [Connection] = []
  private var sending: [Connection] = []
  let buffers: BufferPool
  private var requests: [Request] = []
  var ids = TraceIDGenerator()
  private var idText: [UInt8] = []
  private var date = DateField()
  private(set) var spares: SpareDescriptors

  init(loop: IOLoop, of loops: Int, configuration: Server.Configuration, router: Router, count: ConnectionCount) {
    (self.loop, self.loops, self.configuration, self.router, self.count) = (loop, loops, configuration, router, count)
    sharedLimits = SharedLimits(configuration.limits)
    buffers = BufferPool(configuration.limits)
    observer = configuration.observer.forOneLoop()
    tls = configuration.tls
    strictTransportSecurity = configuration.strictTransportSecurity.map { [.strictTransportSecurity: $0] } ?? [:]
    spares = SpareDescriptors(configuration.spareDescriptors)
  }

  func start(_ listeners: [Listener]) {
    loop.assertCurrent()
    self.listeners = listeners
    for listener in listeners { listener.start(on: loop, for: self) }
  }

  func listener(_ listener: Listener, accepted descriptor: consuming Descriptor, from peer: SocketAddress) {
    loop.assertCurrent()
    let counted = peer.ipAddress.flatMap { configuration.isTrustedProxy($0) ? nil : $0.rateLimitPrefix }
    // The kernel resets a connection that closes with unread bytes, such as the first ones of a handshake.
    guard tls == nil || !waiting[.handshake].refuses(counted?.bits, at: loop.now, limits: limits) else {
      return observer.noticed(.handshakeShed(peer))
    }
    guard !hasTooManyDeprioritised(counted?.bits) else {
      observer.noticed(.connectionShed(peer))
      let channel = loop.open(descriptor)
      channel.resetOnClose()
      return channel.close()
    }
    var admission = count.admit(counted)
    if case .tooMany(let others) = admission, makeRoom(besides: others) { admission = count.admit(counted) }
    switch admission {
    case .granted: break
    case .tooMany:
      observer.noticed(.tooManyConnections(peer))
      return reject(descriptor, "The server has reached its limit of connections. Try again later.")
    case .tooManyFromAddress:
      observer.noticed(.tooManyConnectionsFromAddress(peer))
      return reject(descriptor, "This address has too many connections. Close some, or try again later.")
    }
    let hold = MemoryHold(configuration.memory, for: counted?.bits)
    guard charge(hold, Connection.Cost.connection, for: counted) else {
      count.release(counted)
      observer.noticed(.tooLittleMemoryForConnection(peer))
      return reject(descriptor, ErrorResponse.overMemory.detail)
    }
    let channel = loop.open(descriptor, isConnection: true)
    let connection = Connection(channel, peer: peer, counted: counted, hold: hold, arrival: arrivals, worker: self)
    arrivals += 1
    connection.place = connections.count
    connections.append(connection)
    connection.start(tls)
  }

  func nextPlaces(_ most: Int) -> [Int] {
    (0..<min(most, connections.count)).map { _ in
      if nextPlace >= connections.count { nextPlace = 0 }
      defer { nextPlace += 1 }
      return nextPlace
    }
  }

  func listener(_ listener: Listener, cannotAccept error: SocketError) -> Bool {
    if error.code == EMFILE || error.code == ENFILE, spares.freeOne() { return true }
    observer.noticed(.acceptPaused(error))
    return false
  }

  func listener(_ listener: Listener, isCrowded: Bool) {
    if isCrowded { crowdedTurn = loop.turns } else { spares.refill() }
  }

  /// Whether ready descriptors or new connections wait for longer than expensive work may delay them.
  var hasBacklog: Bool { loop.backlog > limits.promptTurn || loop.turns - crowdedTurn <= 1 }
  /// Whether there is such a backlog, or the present turn makes one.
  var isBehind: Bool { hasBacklog || Deadline.now.duration(since: loop.now) > limits.promptTurn }

  /// Closes a connection beyond the limits, after a refusal if it can be sent at once.
  private func reject(_ descriptor: consuming Descriptor, _ detail: String) {
    guard tls == nil else { return }
    let channel = loop.open(descriptor)
    var output: [UInt8] = []
    let id = RequestID(ids.next())
    let refusal = ErrorResponse(.overloaded, detail, retryAfter: 1, end: .connection).response(id: id)
    appendHead(refusal, contentLength: refusal.body.count, id: id, keepAlive: false, to: &output)
    _ = try? channel.send((output + refusal.body).span)
    channel.shutdownWriting()
    // Unread bytes would turn the close into a reset, and the response would be lost.
    var discarded: [UInt8] = []
    _ = try? channel.receive(into: &discarded, atMost: limits.receiveBuffer)
    channel.close()
  }

  func forget(_ connection: Connection) {
    let last = connections.removeLast()
    if last !== connection {
      connections[connection.place] = last
      last.place = connection.place
    }
    if connection.channel.rank == .last { noteReprioritised(connection.peer.client.holder) }
    count.release(connection.counted)
    spares.refill()
  }

  /// Whether more connections of the address are deprioritised than a browser opens at once.
  func hasManyDeprioritised(_ address: MemoryBudget.Holder?) -> Bool {
    address.map { deprioritisedOfAddress[$0, default: 0] > Self.few } ?? false
  }

  /// The connections that a browser opens at once.
  static let few = 6

  /// Whether the address has its share of the connections that may be deprioritised, and the loop reads them so late that it
  /// refuses their requests. Its callers open another connection for each request that waits, up to the limit for all. A
  /// response instead of a reset would cost more than the refusal of a request on a kept connection: with it, floods of ten
  /// times the capacity grew until the kernel's queue was full.
  private func hasTooManyDeprioritised(_ address: MemoryBudget.Holder?) -> Bool {
    guard stage == .serving, let address, let count = deprioritisedOfAddress[address] else { return false }
    let share = limits.connections / Self.partDeprioritised / loops / deprioritisedOfAddress.count
    return count >= max(Self.few, share) && loop.backlog(of: .last) > limits.lateWork
  }

  /// All addresses together have at most a quarter of the server's connections deprioritised.
  private static let partDeprioritised = 4

  func noteReprioritised(_ address: MemoryBudget.Holder?) {
    guard let address, let count = deprioritisedOfAddress[address] else { return }
    deprioritisedOfAddress[address] = count > 1 ? count - 1 : nil
  }

  /// Closes idle connections once no request can be on its way; before, only HTTP/2 announces its end (RFC 9113 §6.8).
  func drain(to stage: Stage) {
    self.stage = stage
    for connection in connections where stage == .closing || connection.http2 != nil { connection.closeIfIdle() }
  }

  func acceptRestAndCloseListeners() {
    for listener in listeners { listener.acceptRestAndClose() }
    listeners = []
  }

  /// Ends busy connections: a request in progress gets an error that the server is shutting down.
  func abandonConnections() {
    // A connection in the middle of a turn waits for nothing that could be cancelled.
    sendAll()
    for connection in connections { connection.abandon() }
  }

  func lendRequest(to connection: Connection) -> Request {
    let request =
      requests.popLast()
      ?? Request(limits: limits.http1, own: ids.next(), loop: loop, recordedPathBytes: observer.recordedPathBytes)
    request.client = connection.peer.client
    request.clientCertificate = connection.peer.certificate
    request.received = connection.now
    request.isSecure = connection.transport.tls != nil
    request.isHTTP2 = connection.http2 != nil
    return request
  }

  /// The most spare requests, more than a loop uses at once.
  private static let spareRequests = 8

  func takeBack(_ request: Request) {
    guard requests.count < Self.spareRequests else { return }
    request.reset()
    requests.append(request)
  }

  /// Sends the responses of a connection at the end of the turn, right after those of others. A peer on this machine then
  /// wakes up once for all; waking it takes as long as a cached response.
  func sendSoon(_ connection: Connection) {
    guard loop.servesSeveral else { return connection.sendAndRest() }
    if unsent.isEmpty { loop.atEndOfTurn { self.sendAll() } }
    unsent.append(connection)
    if unsent.count >= Self.mostUnsent { sendAll() }
  }

  private func sendAll() {
    swap(&unsent, &sending)
    for connection in sending { connection.sendAndRest() }
    sending.removeAll(keepingCapacity: true)
  }

  /// The most connections with responses that wait for each other. More would wait longer, and save little.
  static let mostUnsent = 16

  func appendHead(
    _ response: Response, contentLength: Int?, isChunked: Bool = false, id: RequestID, version: HTTPVersion = .http11,
    keepAlive: Bool, to output: inout [UInt8]
  ) {
    let date = self.date.present()
    idText.removeAll(keepingCapacity: true)
    idText.append(id)
    let id = idText
    ResponseSerializer.append(
      status: response.status, prepared: response.prepared, encoded: response.encoded, fields: response.fields,
      contentLength: contentLength, isChunked: isChunked, date: date.span, requestID: id.span, keepAlive: keepAlive,
      version: version, to: &output)
  }
}

/// The value of `Date`, created once a second.
private struct DateField {
  private var value: [UInt8] = []
  private var second = -1

  /// Returns the value for the clock's time, which costs one vDSO call.
  mutating func present() -> [UInt8] {
    let now = Glibc.time(nil)
    guard now != second else { return value }
    second = now
    value.removeAll(keepingCapacity: true)
    HTTPDate(secondsSinceEpoch: now).append(to: &value)
    return value
  }
}
