import EventLoop

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
