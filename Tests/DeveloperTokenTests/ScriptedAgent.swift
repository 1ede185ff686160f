import Cryptography
import Dispatch
import Glibc
import Locks
import TestSupport

@testable import DeveloperToken

/// An agent that does what a test says with each request.
final class ScriptedAgent: Sendable {
  enum Action: Sendable {
    case send([UInt8])
    /// Sends these bytes and closes.
    case close(after: [UInt8])
    case silence
  }

  let socket: String
  private let listener: Int32
  private let state = Locked<(requests: Int, open: [Int32])>((0, []))
  private let directory: TemporaryDirectory

  /// The number of requests so far.
  var requests: Int { state.withLock { $0.requests } }

  /// - Parameter act: Returns what to do with a request to sign these bytes.
  init(_ act: @escaping @Sendable ([UInt8]) -> Action) throws {
    directory = try TemporaryDirectory()
    socket = directory.path(of: "agent.sock")
    let listener = Glibc.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    self.listener = listener
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let path = socket
    unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: path.utf8) }
    let isBound = unsafe withUnsafePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe bind(listener, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
      }
    }
    guard isBound, listen(listener, 64) == 0 else { throw TestFailure("There is no socket to listen on.") }
    DispatchQueue(label: "agent").async { [state] in
      while true {
        let connection = accept(listener, nil, nil)
        guard connection >= 0 else { return }
        guard let data = Self.request(connection) else {
          close(connection)
          continue
        }
        state.withLock { $0.requests += 1 }
        switch act(data) {
        case .send(let bytes):
          _ = unsafe Glibc.send(connection, bytes, bytes.count, Int32(MSG_NOSIGNAL))
          state.withLock { $0.open.append(connection) }
        case .close(let bytes):
          _ = unsafe Glibc.send(connection, bytes, bytes.count, Int32(MSG_NOSIGNAL))
          close(connection)
        case .silence: state.withLock { $0.open.append(connection) }
        }
      }
    }
  }

  deinit {
    shutdown(listener, Int32(SHUT_RDWR))
    close(listener)
    for connection in state.withLock({ $0.open }) { close(connection) }
  }

  /// The bytes to sign of a request; nil if it does not come.
  private static func request(_ connection: Int32) -> [UInt8]? {
    func bytes(_ count: Int) -> [UInt8]? {
      var buffer = [UInt8](repeating: 0, count: count)
      return unsafe recv(connection, &buffer, count, Int32(MSG_WAITALL)) == count ? buffer : nil
    }
    func number(_ bytes: some Sequence<UInt8>) -> Int { bytes.reduce(0) { $0 << 8 | Int($1) } }
    guard let length = bytes(4).map({ number($0) }), let message = bytes(length), message.first == 13 else {
      return nil
    }
    let key = number(message[1..<5])
    let data = message.dropFirst(5 + key)
    return Array(data.dropFirst(4).prefix(number(data.prefix(4))))
  }

  // MARK: Responses

  static func string(_ bytes: [UInt8]) -> [UInt8] {
    [0, 0, UInt8(bytes.count >> 8), UInt8(bytes.count & 0xFF)] + bytes
  }

  /// A response with a signature of these two numbers.
  static func response(_ r: [UInt8], _ s: [UInt8], algorithm: String = "ecdsa-sha2-nistp256") -> [UInt8] {
    string([14] + string(string(Array(algorithm.utf8)) + string(string(r) + string(s))))
  }

  /// A response with the signature of a key.
  static func response(_ data: [UInt8], by key: SigningKey) throws -> [UInt8] {
    let raw = try key.signature(of: data).bytes
    func number(_ half: ArraySlice<UInt8>) -> [UInt8] {
      let digits = Array(half.drop { $0 == 0 })
      return (digits.first ?? 0) >= 0x80 ? [0] + digits : digits
    }
    return response(number(raw[..<32]), number(raw[32...]))
  }
}

extension RemoteSigner {
  /// A signer with the public half of a key.
  convenience init(
    _ place: Place, _ key: SigningKey, in directory: TemporaryDirectory, timeout: Duration = .seconds(30),
    failureLifetime: Duration = .seconds(3600)
  ) throws {
    let file = try directory.write(key.publicKeyPEM, to: "public.pem")
    self.init(
      place, publicKey: try PublicKeyFile.load(file, keyID: nil), timeout: timeout, failureLifetime: failureLifetime)
  }

  /// The error of a signature; nil if there is none.
  func error() -> RemoteSignerError? {
    do throws(RemoteSignerError) { try probe() } catch { return error }
    return nil
  }
}
