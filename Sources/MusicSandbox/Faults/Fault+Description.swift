extension Fault: CustomStringConvertible {
  /// The fault as it is asked for.
  public var description: String {
    switch self {
    case .delay(let duration): "delay=\(Self.milliseconds(duration))ms"
    case .status(let status): "status=\(status)"
    case .unauthorized: "empty-401"
    case .rateLimited: "rate-limit"
    case .redirect(let location): "redirect=\(location)"
    case .huge(let count): "huge=\(count)"
    case .slow(let pace): "slow=\(pace)"
    case .reset: "reset"
    case .truncate: "truncate"
    case .goaway: "goaway"
    case .foreignFields: "set-cookie"
    }
  }

  /// Delays that were read have at most ten minutes, and whole milliseconds.
  private static func milliseconds(_ duration: Duration) -> Int64 {
    let bounded = max(.zero, min(duration, maximumDelay)).components
    return bounded.seconds * 1000 + bounded.attoseconds / 1_000_000_000_000_000
  }
}
