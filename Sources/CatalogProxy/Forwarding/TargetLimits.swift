/// The bounds of a request target that goes upstream: name, default, unit and reason. The request line's own bound holds
/// besides, 8 KiB by default.
public struct TargetLimits: Sendable, Equatable {
  /// Longest path as it was received, in bytes: 2048. The longest that Apple documents has about a hundred.
  public var path = 2048

  /// Longest segment of a path, escapes undone, in bytes: 256. Apple's longest identifiers, of stations and library
  /// items, stay below a hundred.
  public var segment = 256

  /// Most segments of a path: 16. Apple's deepest paths have eight.
  public var segments = 16

  /// Most parameters of a query: 128. Each is sorted for the cache key; lists such as `ids` are one parameter.
  public var parameters = 128

  /// The defaults.
  public init() {}
}
