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
