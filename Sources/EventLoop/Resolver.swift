import CPlatform
import Glibc

/// A name did not resolve.
public struct ResolutionError: Error, Sendable, Equatable {
  /// Which name, and why, in the words of the system's resolver.
  public let reason: String

  /// An error with a reason.
  public init(reason: String) { self.reason = reason }
}

/// The TCP addresses that `host`, a name or an address, stands for. Blocks: not for an event loop's thread, but at start.
func resolve(_ host: String, port: UInt16) throws(ResolutionError) -> [SocketAddress] {
  var hints = unsafe addrinfo()
  unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
  unsafe hints.ai_flags = AI_NUMERICSERV
  var list: UnsafeMutablePointer<addrinfo>?
  let status = unsafe getaddrinfo(host, "\(port)", &hints, &list)
  guard status == 0 else {
    throw ResolutionError(reason: "the name \(host) does not resolve (\(unsafe String(cString: gai_strerror(status))))")
  }
  defer { unsafe freeaddrinfo(list) }
  var addresses: [SocketAddress] = []
  var next = unsafe list
  while let entry = unsafe next {
    if let address = unsafe SocketAddress(entry.pointee), !addresses.contains(address) { addresses.append(address) }
    unsafe next = entry.pointee.ai_next
  }
  return addresses
}

extension SocketAddress {
  fileprivate init?(_ entry: addrinfo) {
    guard let address = unsafe entry.ai_addr else { return nil }
    var storage = sockaddr_storage()
    unsafe withUnsafeMutableBytes(of: &storage) { room in
      let bytes = unsafe UnsafeRawBufferPointer(start: address, count: min(Int(entry.ai_addrlen), room.count))
      unsafe room.copyMemory(from: bytes)
    }
    self.init(storage)
  }
}
