import Glibc

/// The sole owner of a file descriptor, which is closed exactly once, when the value ends.
public struct Descriptor: ~Copyable, Sendable {
  /// The kernel's number of the descriptor, valid as long as this value lives.
  public let raw: Int32

  /// Takes ownership of `raw`. From now on only this value may close it.
  public init(owning raw: Int32) { self.raw = raw }

  /// Returns a second descriptor of the same open file, with close-on-exec.
  public borrowing func duplicate() throws(SocketError) -> Descriptor {
    let copy = fcntl(raw, F_DUPFD_CLOEXEC, 0)
    guard copy >= 0 else { throw SocketError(during: "dup") }
    return Descriptor(owning: copy)
  }

  /// Gives up the ownership: the caller must make another value of the number.
  consuming func relinquish() -> Int32 {
    let raw = raw
    discard self
    return raw
  }

  deinit { close(raw) }

  /// The type of a stream socket, as SO_TYPE has it.
  static var stream: Int32 { Int32(SOCK_STREAM.rawValue) }

  /// Returns a new stream socket, non-blocking and with close-on-exec from the start.
  static func socket(family: Int32) throws(SocketError) -> Descriptor {
    let type = stream | Int32(SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
    let raw = Glibc.socket(family, type, 0)
    guard raw >= 0 else { throw SocketError(during: "socket") }
    return Descriptor(owning: raw)
  }

  /// Returns the value of a socket's option (SOL_SOCKET), or nil if the call fails.
  static func option(_ name: Int32, of raw: Int32) -> Int32? {
    var value: Int32 = 0
    var length = socklen_t(MemoryLayout<Int32>.size)
    return unsafe getsockopt(raw, SOL_SOCKET, name, &value, &length) == 0 ? value : nil
  }

  borrowing func set(_ level: Int32, _ option: Int32, _ value: Int32) throws(SocketError) {
    var value = value
    guard unsafe setsockopt(raw, level, option, &value, socklen_t(MemoryLayout<Int32>.size)) == 0 else {
      throw SocketError(during: "setsockopt")
    }
  }

  /// Returns whether the system grants `count` further descriptors at once.
  public static func areAvailable(_ count: Int) -> Bool { SpareDescriptors(count).isComplete }
}

/// Descriptors that are kept open, so that their owner can free one when the system has no others left.
public struct SpareDescriptors: ~Copyable, Sendable {
  private let wanted: Int
  private var kept: [Int32] = []
  /// Whether none is in use.
  public private(set) var isComplete = false

  /// Keeps so many descriptors, or as many as there are.
  public init(_ count: Int) {
    wanted = count
    refill()
  }

  /// Frees a descriptor. Returns false if none is kept.
  public mutating func freeOne() -> Bool {
    guard let raw = kept.popLast() else { return false }
    close(raw)
    isComplete = false
    return true
  }

  /// Takes the place of those that were freed, as soon as there are free ones.
  public mutating func refill() {
    while kept.count < wanted {
      // A new socket counts against the limits of process and system; a duplicate counts only against the first.
      do { kept.append(try Descriptor.socket(family: AF_UNIX).relinquish()) } catch { return }
    }
    isComplete = true
  }

  deinit { for raw in kept { close(raw) } }
}

/// The error of a system call on a socket.
public struct SocketError: Error, Equatable, CustomStringConvertible {
  /// The name of the call, as in its manual page.
  public let call: String
  /// The `errno` after the call.
  public let code: Int32

  /// Creates an error with the present `errno`, directly after the failed call.
  public init(during call: String) { self.init(call: call, code: errno) }

  /// Creates an error with a given code.
  public init(call: String, code: Int32) { (self.call, self.code) = (call, code) }

  /// The error as text, such as `bind: Address already in use`.
  public var description: String {
    // strerror is thread-safe in glibc since 2.32, and never returns null.
    "\(call): \(unsafe String(cString: strerror(code)))"
  }
}
