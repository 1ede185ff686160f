import EventLoop
import HTTPClient

extension SettingType where Value == ListenHost {
  /// A host to listen on.
  static let listenHost: SettingType = {
    let remedy = "write an IP address without brackets, \"localhost\", or \"*\" for every address"
    return string(remedy) { (text) throws(InvalidValue) in
      guard let host = ListenHost(text) else {
        throw InvalidValue(problem: "\(quoted(text)) is not an IP address", remedy: remedy)
      }
      return host
    }
  }()
}

extension SettingType where Value == String {
  /// The URL of a proxy that makes tunnels, with credentials if it wants some.
  static let upstreamProxy: SettingType = {
    let remedy = "write a URL such as \"http://proxy.example.com:3128\""
    return string(remedy) { (text) throws(InvalidValue) in
      guard (try? UpstreamProxy(text)) != nil else {
        throw InvalidValue(problem: "is not the URL of a proxy", remedy: remedy)
      }
      return text
    }
  }()
}

extension SettingType where Value == AddressRange {
  /// A range of addresses.
  static let addressRange: SettingType = {
    let remedy = "write an address or a CIDR range such as \"10.0.0.0/8\", without bits beyond its prefix"
    return string(remedy) { (text) throws(InvalidValue) in
      guard let range = AddressRange(text) else {
        throw InvalidValue(problem: "\(quoted(text)) is not a range of addresses", remedy: remedy)
      }
      return range
    }
  }()
}

extension SettingType where Value == [String] {
  /// Names of hosts, one at least: an empty list would say that a listener answers for no name, or for any.
  static let hostNames: SettingType = {
    let remedy = "write a list such as [\"tokens.example.com\"]; IP addresses and localhost are always answered"
    let names = list(of: .hostName, remedy: remedy)
    return SettingType(
      isList: true,
      parse: { (content) throws(InvalidValue) in
        let hosts = try names.parse(content)
        guard !hosts.isEmpty else { throw InvalidValue(problem: "is empty", remedy: "name some, or leave it out") }
        return hosts
      },
      write: names.write)
  }()
}

extension SettingType where Value == String {
  /// A DNS name as `Host` has it, without a port (RFC 1035 §2.3.4 bounds its length and that of its labels).
  fileprivate static let hostName: SettingType = {
    let remedy = "write a name such as \"tokens.example.com\", without scheme, port and star"
    return string(remedy) { (text) throws(InvalidValue) in
      let labels = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
      let isName = labels.allSatisfy { label in
        (1...63).contains(label.count)
          && label.allSatisfy {
            (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) || (0x61...0x7A).contains($0) || $0 == 0x2D
              || $0 == 0x5F
          }
      }
      guard isName, text.utf8.count <= 253 else {
        throw InvalidValue(problem: "\(quoted(text)) is not the name of a host", remedy: remedy)
      }
      return text.lowercased()
    }
  }()
}
