import Bytes
import Cryptography
import Glibc

/// A connection to an ssh-agent, for one signature (draft-ietf-sshm-ssh-agent §3.6). It blocks.
struct AgentConnection: ~Copyable {
  private static let failure: UInt8 = 5
  private static let signRequest: UInt8 = 13
  private static let signResponse: UInt8 = 14
  private static let algorithm = "ecdsa-sha2-nistp256"
  /// The most bytes of a response. A signature has about 100.
  private static let longestResponse = 1024

  private let descriptor: Int32
  private let time: SigningTime
  private var place: RemoteSigner.Place { time.place }

  init(to path: String, within time: SigningTime) throws(RemoteSignerError) {
    self.time = time
    let flags = SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue
    descriptor = socket(AF_UNIX, Int32(flags), 0)
    guard descriptor >= 0 else { throw failed(errno) }
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let isShort = unsafe withUnsafeMutableBytes(of: &address.sun_path) { storage in
      guard path.utf8.count < storage.count else { return false }
      unsafe storage.copyBytes(from: path.utf8)
      return true
    }
    guard isShort else { throw failed(ENAMETOOLONG) }
    let length = socklen_t(MemoryLayout<sockaddr_un>.size)
    while true {
      let result = unsafe withUnsafePointer(to: &address) { pointer in
        unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe connect(descriptor, $0, length) }
      }
      if result == 0 { return }
      // The queue of the socket is full (unix(7)). No event tells that it has room.
      guard errno == EAGAIN || errno == EINTR else { throw failed(errno) }
      poll(nil, 0, try time.nextWait(atMost: 10))
    }
  }

  deinit { if descriptor >= 0 { close(descriptor) } }

  /// Returns the agent's signature by the key with these coordinates. The agent hashes `input` itself.
  func signature(of input: [UInt8], by point: [UInt8]) throws(RemoteSignerError) -> ECDSASignature {
    var request = [Self.signRequest]
    request.append(sshString: PublicKeyFile.blobPrefix + point)
    request.append(sshString: input)
    request.append(sshNumber: 0)
    var message: [UInt8] = []
    message.append(sshString: request)
    try send(message)
    let length = SSHReader(try receive(4)).rest.reduce(0) { $0 << 8 | Int($1) }
    guard (1...Self.longestResponse).contains(length) else { throw strange("a message of \(length) bytes") }
    var response = SSHReader(try receive(length))
    switch response.byte() {
    case Self.signResponse: break
    case Self.failure:
      throw RemoteSignerError(
        """
        \(place) has no key that matches musickit.signer.publicKeyFile, or refused to sign; `ssh-add -L` lists its keys.
        """, isTemporary: true)
    case let type: throw strange("a message of type \(type.map { "\($0)" } ?? "-")")
    }
    guard var blob = response.string().map({ SSHReader($0) }), response.rest.isEmpty,
      blob.string() == Array(Self.algorithm.utf8), var numbers = blob.string().map({ SSHReader($0) }),
      let signature = numbers.signature()
    else { throw strange("a malformed signature") }
    return signature
  }

  private func send(_ message: [UInt8]) throws(RemoteSignerError) {
    var rest = message[...]
    while !rest.isEmpty {
      let count = unsafe rest.withUnsafeBytes { bytes in
        unsafe Glibc.send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
      }
      if count >= 0 { rest = rest.dropFirst(count) } else { try wait(for: POLLOUT, after: errno) }
    }
  }

  private func receive(_ count: Int) throws(RemoteSignerError) -> [UInt8] {
    var bytes: [UInt8] = []
    while bytes.count < count {
      var buffer = [UInt8](repeating: 0, count: count - bytes.count)
      let received = unsafe recv(descriptor, &buffer, buffer.count, 0)
      guard received != 0 else {
        throw RemoteSignerError("\(place) has closed the connection without a signature.", isTemporary: true)
      }
      if received > 0 { bytes += buffer.prefix(received) } else { try wait(for: POLLIN, after: errno) }
    }
    return bytes
  }

  private func wait(for event: Int32, after code: Int32) throws(RemoteSignerError) {
    guard code == EAGAIN || code == EINTR else { throw failed(code) }
    var entry = pollfd(fd: descriptor, events: Int16(event), revents: 0)
    unsafe poll(&entry, 1, try time.nextWait())
  }

  /// A connection to a file that is not a socket is refused, too (ECONNREFUSED). Such a file must not be removed.
  private func failed(_ connectCode: Int32) -> RemoteSignerError {
    let code = connectCode == ECONNREFUSED && !isSocket ? ENOTSOCK : connectCode
    let isOfSettings = [EACCES, EPERM, ENAMETOOLONG, ENOTSOCK, EPROTOTYPE, ENOTDIR, ELOOP].contains(code)
    let advice =
      switch code {
      case EACCES, EPERM, ECONNRESET: "; ssh-agent serves only the user that started it"
      case ENOENT: "; start ssh-agent -a with this path, or correct the path"
      case ENOTSOCK: "; write the path of the agent's socket"
      case ECONNREFUSED: "; if an agent has left this socket behind, remove it and start ssh-agent -a with this path"
      default: ""
      }
    return RemoteSignerError(
      "\(place) cannot be reached: \(unsafe String(cString: strerror(code)))\(advice).", isTemporary: !isOfSettings)
  }

  private var isSocket: Bool {
    guard case .agent(let path) = place else { return false }
    var status = stat()
    return unsafe stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFSOCK
  }

  private func strange(_ what: String) -> RemoteSignerError {
    RemoteSignerError("\(place) does not speak the protocol of ssh-agent: it has sent \(what).", isTemporary: false)
  }
}

/// A reader of the data types of SSH (RFC 4251 §5). Nothing follows from a malformed one but nil.
private struct SSHReader {
  private(set) var rest: ArraySlice<UInt8>

  init(_ bytes: [UInt8]) { rest = bytes[...] }

  mutating func byte() -> UInt8? { rest.popFirst() }

  mutating func string() -> [UInt8]? {
    guard rest.count >= 4 else { return nil }
    let length = rest.prefix(4).reduce(0) { $0 << 8 | Int($1) }
    guard length <= rest.count - 4 else { return nil }
    defer { rest = rest.dropFirst(4 + length) }
    return Array(rest.dropFirst(4).prefix(length))
  }

  /// Reads `r` and `s` (RFC 5656 §3.1.2), which must be all.
  mutating func signature() -> ECDSASignature? {
    guard let r = number(), let s = number(), rest.isEmpty else { return nil }
    return ECDSASignature(raw: (r + s).span)
  }

  /// Reads a positive number of 32 bytes at most, and returns it with 32.
  private mutating func number() -> [UInt8]? {
    guard let bytes = string(), bytes.first.map({ $0 < 0x80 }) ?? false else { return nil }
    let digits = bytes.drop { $0 == 0 }
    guard digits.count <= 32 else { return nil }
    return [UInt8](repeating: 0, count: 32 - digits.count) + digits
  }
}

extension [UInt8] {
  fileprivate mutating func append(sshNumber number: UInt32) {
    for shift in [24, 16, 8, 0] as [UInt32] { append(UInt8(truncatingIfNeeded: number >> shift)) }
  }

  fileprivate mutating func append(sshString bytes: [UInt8]) {
    append(sshNumber: UInt32(clamping: bytes.count))
    self += bytes
  }
}
