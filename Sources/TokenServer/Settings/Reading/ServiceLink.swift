/// The variables that Kubernetes sets for each service, as Docker links once did.
///
/// A service called `server` gives every pod of its namespace `SERVER_PORT=tcp://10.0.0.1:8080`.
enum ServiceLink {
  /// Whether such a variable looks like `name`, whatever its value.
  static func isName(_ name: String) -> Bool {
    if name.hasSuffix("_SERVICE_HOST") || name.hasSuffix("_SERVICE_PORT") || name.contains("_SERVICE_PORT_") {
      return true
    }
    let parts = name.split(separator: "_")
    guard let protocolIndex = parts.lastIndex(where: { ["TCP", "UDP", "SCTP"].contains($0) }), protocolIndex >= 2
    else { return false }
    return parts[protocolIndex - 2] == "PORT" && UInt16(parts[protocolIndex - 1]) != nil
  }

  /// Whether `value` is what such a variable holds, an address that is not one of our settings' values.
  static func isValue(_ value: String) -> Bool {
    ["tcp://", "udp://", "sctp://"].contains { value.hasPrefix($0) }
  }
}
