import COpenSSL
import Glibc

/// A client that sends exactly the given bytes, over TCP, TLS or a Unix-domain socket. It blocks. A read without data
/// for `patience` fails instead of hanging.
@safe public final class RawClient {
  /// The time limit of a read or write in seconds. Only failing tests reach it, because no machine needs that long.
  public static let patience = 60

  /// The socket's descriptor.
  public let descriptor: Int32

  private var tls: ClientTLS?

  /// The received bytes that no call has returned yet.
  private var buffer: [UInt8] = []

  /// Connects to a port of `host`, an IPv4 or IPv6 address, and performs the TLS handshake if `isTLS`.
  /// - Parameters:
  ///   - source: The IPv4 address to connect from; nil for the usual one.
  ///   - receiveBuffer: The size of the kernel's receive buffer in bytes; nil for the default.
  ///   - connectPatience: The time limit of the connection request in milliseconds; nil for `patience`.
  public init(
    port: UInt16, host: String = "127.0.0.1", from source: String? = nil, isTLS: Bool = false,
    receiveBuffer: Int32? = nil, connectPatience: Int? = nil
  ) throws {
    descriptor = try Self.connected(
      port, host, Options(source: source, receiveBuffer: receiveBuffer, connectPatience: connectPatience))
    if isTLS { try startTLS() }
  }

  /// Connects to a Unix-domain socket.
  public init(path: String) throws {
    descriptor = try Self.connected(path: path)
  }

  /// Performs the TLS handshake.
  public func startTLS() throws { tls = try ClientTLS(descriptor) }

  deinit { close(descriptor) }

  // MARK: Sending

  /// Sends all of `bytes`.
  public func send(_ bytes: [UInt8]) throws {
    if let tls { return try tls.write(bytes) }
    try sendUnencrypted(bytes)
  }

  /// Sends text.
  public func send(_ text: String) throws { try send(Array(text.utf8)) }

  /// Sends bytes without encryption, even on a TLS connection.
  public func sendUnencrypted(_ bytes: [UInt8]) throws {
    var sent = 0
    while sent < bytes.count {
      let count = unsafe bytes.withUnsafeBytes {
        unsafe Glibc.send(descriptor, $0.baseAddress?.advanced(by: sent), $0.count - sent, Int32(MSG_NOSIGNAL))
      }
      guard count > 0 else { throw TestFailure("The client cannot send: \(Self.reason).") }
      sent += count
    }
  }

  /// Fails the TLS session with a fatal alert (RFC 8446 §6.2), as if the client had detected an error.
  public func sendFatalAlert() throws { try tls?.sendFatalAlert() }

  /// Ends the sending direction: sends close_notify over TLS, and FIN.
  public func finishSending() {
    tls?.close()
    shutdown(descriptor, Int32(SHUT_WR))
  }

  /// Makes the deinitialization of this object reset the connection (SO_LINGER of 0, `socket(7)`).
  public func resetOnClose() {
    var linger = linger(l_onoff: 1, l_linger: 0)
    unsafe setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout<Glibc.linger>.size))
  }

  // MARK: Receiving

  /// Returns the next response, which may be interim, or nil if the server closes the connection instead.
  /// - Parameter isHead: Whether the request is HEAD, so that the response has no content despite its Content-Length.
  public func response(isHead: Bool = false) throws -> RawResponse? {
    while true {
      if let (response, length) = try RawResponse.parse(buffer, isHead: isHead) {
        buffer.removeFirst(length)
        return response
      }
      guard let bytes = try receive() else {
        guard buffer.isEmpty else { throw TestFailure("The server closed in the middle of a response.") }
        return nil
      }
      buffer += bytes
    }
  }

  /// Returns the bytes that the server sends until `text`, including `text`.
  public func text(until text: String) throws -> String {
    while true {
      if let range = buffer.firstRange(of: Array(text.utf8)) {
        defer { buffer.removeSubrange(..<range.upperBound) }
        return String(decoding: buffer[..<range.upperBound], as: UTF8.self)
      }
      guard let bytes = try receive() else {
        throw TestFailure("The server never sent “\(text)”, but \(String(decoding: buffer, as: UTF8.self))")
      }
      buffer += bytes
    }
  }

  /// Returns all bytes that the server sends until it closes the connection.
  public func rest() throws -> [UInt8] {
    while let bytes = try receive() { buffer += bytes }
    defer { buffer = [] }
    return buffer
  }

  /// Returns all bytes on the wire, still encrypted, until the server closes or resets the connection.
  public func restUndecrypted() throws -> [UInt8] {
    var received: [UInt8] = []
    var bytes = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = unsafe recv(descriptor, &bytes, bytes.count, 0)
      if count == 0 || (count < 0 && errno == ECONNRESET) { return received }
      guard count > 0 else { throw TestFailure("The client cannot receive: \(Self.reason).") }
      received += bytes.prefix(count)
    }
  }

  /// Whether the server has sent close_notify. Over TLS, it distinguishes a complete end from a truncation.
  public var wasClosedByTLS: Bool { tls?.isClosedByPeer ?? false }

  /// Returns the next bytes, or nil at the end of the connection.
  private func receive() throws -> [UInt8]? {
    if let tls { return try tls.read() }
    var bytes = [UInt8](repeating: 0, count: 65_536)
    let count = unsafe recv(descriptor, &bytes, bytes.count, 0)
    guard count >= 0 || errno != EAGAIN else {
      throw TestFailure("Waited for \(Self.patience) s in vain: bytes of the server.")
    }
    guard count >= 0 else { throw TestFailure("The client cannot receive: \(Self.reason).") }
    return count == 0 ? nil : Array(bytes.prefix(count))
  }

  // MARK: Connecting

  private static var reason: String { unsafe String(cString: strerror(errno)) }

  private struct Options {
    var source: String?
    var receiveBuffer: Int32?
    var connectPatience: Int?
  }

  private static func connected(_ port: UInt16, _ host: String, _ options: Options) throws -> Int32 {
    var storage = sockaddr_storage()
    let length = unsafe withUnsafeMutablePointer(to: &storage) { pointer -> Int in
      unsafe pointer.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) { v6 in
        unsafe v6.pointee.sin6_family = sa_family_t(AF_INET6)
        unsafe v6.pointee.sin6_port = port.bigEndian
        return unsafe inet_pton(AF_INET6, host, &v6.pointee.sin6_addr) == 1 ? MemoryLayout<sockaddr_in6>.size : 0
      }
    }
    guard length == 0 else {
      return try connect(family: AF_INET6, &storage, length, options)
    }
    unsafe withUnsafeMutablePointer(to: &storage) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr_in.self, capacity: 1) { v4 in
        unsafe v4.pointee.sin_family = sa_family_t(AF_INET)
        unsafe v4.pointee.sin_port = port.bigEndian
        unsafe v4.pointee.sin_addr.s_addr = inet_addr(host)
      }
    }
    return try connect(family: AF_INET, &storage, MemoryLayout<sockaddr_in>.size, options)
  }

  private static func connected(path: String) throws -> Int32 {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: path.utf8.prefix(107)) }
    var storage = sockaddr_storage()
    unsafe withUnsafeMutableBytes(of: &storage) { room in
      unsafe withUnsafeBytes(of: address) { unsafe room.copyMemory(from: $0) }
    }
    return try connect(family: AF_UNIX, &storage, MemoryLayout<sockaddr_un>.size, Options())
  }

  private static func connect(
    family: Int32, _ storage: inout sockaddr_storage, _ length: Int, _ options: Options
  ) throws -> Int32 {
    let descriptor = socket(family, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { throw TestFailure("The client has no socket: \(reason).") }
    if family != AF_UNIX { set(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, Int32(1)) }
    if let size = options.receiveBuffer { set(descriptor, SOL_SOCKET, SO_RCVBUF, size) }
    if let source = options.source { bind(descriptor, to: source) }
    let patience = timeval(tv_sec: patience, tv_usec: 0)
    set(descriptor, SOL_SOCKET, SO_RCVTIMEO, patience)
    // This time limit also applies to connect(2).
    set(
      descriptor, SOL_SOCKET, SO_SNDTIMEO,
      options.connectPatience.map { timeval(tv_sec: $0 / 1000, tv_usec: $0 % 1000 * 1000) } ?? patience)
    let result = unsafe withUnsafePointer(to: &storage) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
        unsafe Glibc.connect(descriptor, address, socklen_t(length))
      }
    }
    guard result == 0 else {
      let refusal = TestFailure("The client cannot connect: \(reason).")
      close(descriptor)
      throw refusal
    }
    set(descriptor, SOL_SOCKET, SO_SNDTIMEO, patience)
    return descriptor
  }

  /// Chooses the address to connect from. If that fails, the server sees the usual address, and the test fails there.
  private static func bind(_ descriptor: Int32, to source: String) {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    unsafe address.sin_addr.s_addr = inet_addr(source)
    _ = unsafe withUnsafePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
        unsafe Glibc.bind(descriptor, address, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
  }

  private static func set<Value: BitwiseCopyable>(_ descriptor: Int32, _ level: Int32, _ option: Int32, _ value: Value)
  {
    var value = value
    unsafe setsockopt(descriptor, level, option, &value, socklen_t(MemoryLayout<Value>.size))
  }
}
