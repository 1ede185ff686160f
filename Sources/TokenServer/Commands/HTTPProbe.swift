import Glibc

/// The URL of an HTTP server to be asked one thing.
struct HTTPProbe {
  /// Why a URL cannot be asked.
  struct InvalidURL: Error, Equatable {
    let description: String
  }

  let url: String
  /// The host without brackets, for the resolver.
  let host: String
  let port: String
  /// The authority as it stood, for the `Host` field.
  let authority: String
  let target: String

  /// The parts of an `http` URL.
  init(url: String) throws(InvalidURL) {
    let isPlain = url.utf8.allSatisfy { (0x21...0x7E).contains($0) }
    guard isPlain, url.hasPrefix("http://") else {
      let reason = url.hasPrefix("https://") ? "health checks speak plain HTTP only" : "it is no http:// URL"
      throw InvalidURL(description: "The URL cannot be asked: \(reason).")
    }
    let rest = url.dropFirst("http://".count)
    let authority = rest.prefix { !"/?#".contains($0) }
    let target = rest.dropFirst(authority.count).prefix { $0 != "#" }
    let portStart = Self.portStart(in: authority)
    let host = authority[..<(portStart ?? authority.endIndex)]
    let port = portStart.map { authority[authority.index(after: $0)...] } ?? "80"
    guard !host.isEmpty, !authority.contains("@"), let number = UInt16(port), number > 0 else {
      throw InvalidURL(description: "The URL cannot be asked: its host or port is malformed.")
    }
    self.url = url
    self.host = host.hasPrefix("[") && host.hasSuffix("]") ? String(host.dropFirst().dropLast()) : String(host)
    self.port = String(port)
    self.authority = String(authority)
    self.target = target.hasPrefix("/") ? String(target) : "/" + target
  }

  private static func portStart(in authority: Substring) -> Substring.Index? {
    let afterBrackets = authority.lastIndex(of: "]") ?? authority.startIndex
    return authority[afterBrackets...].lastIndex(of: ":")
  }

  /// The request's bytes.
  var request: [UInt8] {
    Array("GET \(target) HTTP/1.1\r\nHost: \(authority)\r\nConnection: close\r\n\r\n".utf8)
  }

  /// The status code of a status line (RFC 9112 §4); nil if the response is too short or has no status line.
  static func statusCode(_ response: [UInt8]) -> Int? {
    // "HTTP/1.1 200" and what ends the code.
    guard response.count > 12, response.starts(with: "HTTP/1.".utf8), response[8] == 0x20,
      response[12] == 0x20 || response[12] == 0x0D
    else { return nil }
    let digits = response[9..<12]
    guard digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
    return digits.reduce(0) { $0 * 10 + Int($1 - 0x30) }
  }
}

extension HTTPProbe {
  /// Why a server gave no status.
  struct Failure: Error, CustomStringConvertible {
    let description: String
  }

  /// The status code that the server answers within `timeout`, which the name's resolution does not count towards.
  func status(within timeout: Duration) throws(Failure) -> Int {
    let deadline = ContinuousClock.now + timeout
    let descriptor = try connect(by: deadline)
    defer { close(descriptor) }
    try send(request, descriptor, by: deadline)
    var response: [UInt8] = []
    while response.count < 64 {
      try wait(descriptor, for: POLLIN, by: deadline)
      var chunk = [UInt8](repeating: 0, count: 64)
      let count = unsafe recv(descriptor, &chunk, chunk.count, 0)
      guard count > 0 || errno == EINTR || errno == EAGAIN else { break }
      response.append(contentsOf: chunk[..<max(count, 0)])
      if let status = Self.statusCode(response) { return status }
      if count == 0 { break }
    }
    throw Failure(description: "\(url) gave no HTTP response.")
  }

  /// A non-blocking socket that is connected to the first address that takes it.
  private func connect(by deadline: ContinuousClock.Instant) throws(Failure) -> Int32 {
    var hints = unsafe addrinfo()
    unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    var list: UnsafeMutablePointer<addrinfo>?
    let code = unsafe getaddrinfo(host, port, &hints, &list)
    guard code == 0 else {
      throw Failure(description: "\(url) cannot be asked: \(unsafe String(cString: gai_strerror(code))).")
    }
    defer { unsafe freeaddrinfo(list) }
    var failure = Failure(description: "\(url) has no address.")
    var next = unsafe list
    while let entry = unsafe next {
      do throws(Failure) {
        return unsafe try connect(entry.pointee, by: deadline)
      } catch {
        failure = error
      }
      unsafe next = entry.pointee.ai_next
    }
    throw failure
  }

  private func connect(_ address: addrinfo, by deadline: ContinuousClock.Instant) throws(Failure) -> Int32 {
    let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
    let descriptor = unsafe socket(address.ai_family, type, 0)
    guard descriptor >= 0 else { throw failure(errno) }
    do throws(Failure) {
      if unsafe Glibc.connect(descriptor, address.ai_addr, address.ai_addrlen) != 0 {
        guard errno == EINPROGRESS else { throw failure(errno) }
        try wait(descriptor, for: POLLOUT, by: deadline)
        var code: Int32 = 0
        var size = socklen_t(MemoryLayout<Int32>.size)
        guard unsafe getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &size) == 0, code == 0 else {
          throw failure(code)
        }
      }
      return descriptor
    } catch {
      close(descriptor)
      throw error
    }
  }

  private func send(_ bytes: [UInt8], _ descriptor: Int32, by deadline: ContinuousClock.Instant) throws(Failure) {
    var rest = bytes[...]
    while !rest.isEmpty {
      try wait(descriptor, for: POLLOUT, by: deadline)
      let count = unsafe rest.withUnsafeBytes { buffer in
        unsafe Glibc.send(descriptor, buffer.baseAddress, buffer.count, Int32(MSG_NOSIGNAL))
      }
      guard count >= 0 || errno == EINTR || errno == EAGAIN else { throw failure(errno) }
      rest = rest.dropFirst(max(count, 0))
    }
  }

  private func wait(_ descriptor: Int32, for events: Int32, by deadline: ContinuousClock.Instant) throws(Failure) {
    while true {
      let left = max(0, (deadline - .now) / .milliseconds(1))
      var entry = pollfd(fd: descriptor, events: Int16(events), revents: 0)
      let count = unsafe poll(&entry, 1, Int32(left.rounded(.up)))
      if count > 0 { return }
      if count == 0 { throw Failure(description: "\(url) gave no response in time.") }
      guard errno == EINTR else { throw failure(errno) }
    }
  }

  private func failure(_ code: Int32) -> Failure {
    Failure(description: "\(url) cannot be asked: \(unsafe String(cString: strerror(code))).")
  }
}
