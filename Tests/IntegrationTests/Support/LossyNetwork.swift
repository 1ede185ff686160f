import Glibc
import TestSupport

/// A network namespace with a link to this one, on which packets can be lost. It needs root, and `ip`.
final class LossyNetwork {
  /// The address in the namespace.
  let address: String
  private let neighbour: String
  private let name: String

  /// The reason why no namespace can be created here; nil if one can be created.
  static let obstacle: String? = {
    do {
      _ = try LossyNetwork()
      return nil
    } catch { return "No network namespace can be made here: it takes root, and ip(8). \(error)" }
  }()

  init() throws {
    let number = UInt32.random(in: 0..<1 << 16)
    name = "musickit-test-\(getpid())-\(number)"
    // Link-local addresses lead nowhere else.
    let subnet = "169.254.\(number >> 8)"
    (neighbour, address) = ("\(subnet).\((number & 0xFC) + 1)", "\(subnet).\((number & 0xFC) + 2)")
    let (near, far) = ("mk\(number)a", "mk\(number)b")
    try Self.ip("netns", "add", name)
    do {
      try Self.ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", name)
      try Self.ip("addr", "add", "\(neighbour)/30", "dev", near)
      try Self.ip("link", "set", near, "up")
      try Self.ip("-n", name, "addr", "add", "\(address)/30", "dev", far)
      try Self.ip("-n", name, "link", "set", far, "up")
    } catch {
      try? Self.ip("netns", "del", name)
      throw error
    }
  }

  deinit { try? Self.ip("netns", "del", name) }

  /// What a command begins with that runs in the namespace.
  var launcher: [String] { ["ip", "netns", "exec", name] }

  /// Loses every packet that leaves the namespace, so that no side receives an error.
  func losePackets() throws { try Self.ip("-n", name, "route", "add", "blackhole", "\(neighbour)/32") }

  /// Lets packets through again.
  func deliverPackets() throws { try Self.ip("-n", name, "route", "del", "blackhole", "\(neighbour)/32") }

  private static func ip(_ arguments: String...) throws {
    let result = try run("ip", arguments)
    guard result.status == 0 else { throw TestFailure("ip \(arguments.joined(separator: " ")): \(result.stderr)") }
  }
}
