import EventLoop
import Glibc

/// Tells the service manager about the server's state, by datagrams to its socket (sd_notify(3)).
final class ServiceNotifier: Sendable {
  /// Half of the time in which the service manager expects a sign of life (sd_watchdog_enabled(3)); nil if it does not.
  let watchdogInterval: Duration?

  /// The socket's path; an abstract name begins with NUL (unix(7)).
  private let path: [UInt8]
  /// Whether the service manager's socket has no path.
  var isAbstract: Bool { path[0] == 0 }
  /// Open from start to end, because a server without free descriptors still has to send signs of life.
  private let socket: Descriptor

  /// Takes the service manager's variables from the environment, once, while there is one thread. Nil if none waits.
  static func take() throws(StartError) -> ServiceNotifier? {
    let names = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"]
    let values = names.map { name in
      defer { unsafe unsetenv(name) }
      return unsafe getenv(name).map { unsafe String(cString: $0) }
    }
    guard let address = values[0], !address.isEmpty else { return nil }
    // A process of another number, such as a shell that started this one, has the watchdog.
    let isWatched = values[2].map { Int32($0) == getpid() } ?? true
    guard isWatched, let time = values[1] else { return try ServiceNotifier(address, watchdogInterval: nil) }
    guard let microseconds = Int64(time), microseconds > 0 else {
      throw StartError(
        "WATCHDOG_USEC is not a number of microseconds; start the server without it, or set WatchdogSec=.")
    }
    return try ServiceNotifier(address, watchdogInterval: .microseconds(max(1, microseconds / 2)))
  }

  /// - Parameter address: A path, or `@` and an abstract name.
  private init(_ address: String, watchdogInterval: Duration?) throws(StartError) {
    var path = Array(address.utf8)
    guard path.count > 1, path[0] == UInt8(ascii: "/") || path[0] == UInt8(ascii: "@"), path.count < Self.room else {
      throw StartError(
        """
        NOTIFY_SOCKET is neither an absolute path nor an abstract name with @, of at most \(Self.room - 1) bytes; \
        start the server without it, or with one of these.
        """)
    }
    if path[0] == UInt8(ascii: "@") { path[0] = 0 }
    let raw = Glibc.socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    guard raw >= 0 else {
      throw StartError("The server cannot open a socket for the service manager: \(SocketError(during: "socket")).")
    }
    socket = Descriptor(owning: raw)
    var patience = timeval(tv_sec: Self.patience, tv_usec: 0)
    unsafe setsockopt(raw, SOL_SOCKET, SO_SNDTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
    self.path = path
    self.watchdogInterval = watchdogInterval
  }

  private static let room = MemoryLayout.size(ofValue: sockaddr_un().sun_path)
  /// The seconds that a message waits for room in the service manager's queue.
  private static let patience = 2

  /// Tells that the server accepts connections, or that a reload has ended. Returns the error if the message is lost.
  @discardableResult
  func ready(_ status: String) -> SocketError? { send("READY=1\nSTATUS=\(status)") }
  func reloading() { _ = send("RELOADING=1\nMONOTONIC_USEC=\(Deadline.now.nanoseconds / 1000)") }

  /// Tells that the server ends, within `longest`, so that the service manager waits for the drain.
  func stopping(within longest: Duration) {
    let microseconds = longest.components.seconds * 1_000_000
    _ = send("STOPPING=1\nSTATUS=Draining\nEXTEND_TIMEOUT_USEC=\(microseconds)")
  }

  /// Gives the watchdog a sign of life. It never waits, because an event loop calls it: the next one comes in time.
  func beat() { _ = send("WATCHDOG=1", Int32(MSG_DONTWAIT)) }

  private func send(_ message: String, _ flags: Int32 = 0) -> SocketError? {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: path) }
    // Without the bytes after an abstract name, which would be a part of it.
    let length = socklen_t(MemoryLayout<sa_family_t>.size + path.count + (path[0] == 0 ? 0 : 1))
    let bytes = Array(message.utf8)
    let raw = socket.raw
    let count = unsafe withUnsafePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
        unsafe sendto(raw, bytes, bytes.count, flags | Int32(MSG_NOSIGNAL), address, length)
      }
    }
    return count < 0 ? SocketError(during: "sendto") : nil
  }
}
