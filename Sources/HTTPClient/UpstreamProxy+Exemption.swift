import EventLoop

/// `NO_PROXY`, which no standard defines: what curl, Go and Python understand, all of it.
extension UpstreamProxy {
  /// Whether `NO_PROXY` says that `host` is reached directly: a list of
  /// - names, each of which stands for its subdomains too, with or without `.` or `*.` before it;
  /// - addresses, IPv6 with or without brackets, and ranges of them in CIDR notation;
  /// - either of these with `:port`, which must then be equal (an IPv6 address needs its brackets);
  /// - `*` for all.
  ///
  /// Names are not resolved, so an address or a range exempts only a host that is written as an address.
  /// - Parameter host: A name, or an address without brackets.
  public static func isExempt(_ host: String, port: UInt16, noProxy: String) -> Bool {
    let host = host.lowercased()
    let address = IPAddress(host)
    // Spaces separate too, as they do for curl.
    return noProxy.lowercased().split(whereSeparator: { $0 == "," || $0 == " " }).contains { entry in
      if entry == "*" { return true }
      let (name, wanted) = nameAndPort(entry)
      guard wanted.map({ $0 == port }) ?? true else { return false }
      if let address { return AddressRange(name)?.contains(address) ?? false }
      let domain = name.drop { $0 == "*" }.drop { $0 == "." }
      return !domain.isEmpty && (host == domain || host.hasSuffix(".\(domain)"))
    }
  }

  /// An entry's parts. What follows a colon and is no port makes the entry match nothing.
  private static func nameAndPort(_ entry: Substring) -> (name: String, port: UInt16?) {
    if entry.first == "[", let end = entry.firstIndex(of: "]") {
      let rest = entry[entry.index(after: end)...]
      let address = String(entry[entry.index(after: entry.startIndex)..<end])
      // A range may follow the brackets' address: "[2001:db8::]/32".
      guard rest.first == ":" else { return (address + rest, nil) }
      return (address, UInt16(rest.dropFirst()) ?? 0)
    }
    guard let colon = entry.firstIndex(of: ":"), entry.lastIndex(of: ":") == colon else { return (String(entry), nil) }
    return (String(entry[..<colon]), UInt16(entry[entry.index(after: colon)...]) ?? 0)
  }
}
