/// Leave to ask the upstream. What came of it is reported with it.
public struct CircuitPass: Sendable, Equatable {
  /// Whether it is the one request that finds out whether the upstream has come back.
  public let isProbe: Bool
  /// Whether it is a second opinion: of a caller that the failures are not of.
  var isOpinion = false
  /// Which closed time, or which probe, it belongs to.
  let epoch: UInt64
  let began: Duration
}
