/// A value for each client, for metrics with the label `client`.
///
/// The number of clients has a limit. Most values are about the same client as the one before, which costs a comparison
/// instead of a hash. Only a new client allocates memory.
public struct ClientTallies<Value: Sendable>: Sendable {
  /// The clients and their values, in the order in which they came.
  public private(set) var elements: [(client: String, value: Value)] = []

  private let initial: Value
  private var places: [String: Int] = [:]
  private var latest = 0

  /// Creates a list without clients.
  ///
  /// - Parameter initial: The value of a new client.
  public init(_ initial: Value) {
    self.initial = initial
  }

  /// Changes the value of a client.
  ///
  /// - Parameter client: A client's id in the settings, or a placeholder; never a part of a request.
  public mutating func update(_ client: String, _ change: (inout Value) -> Void) {
    let place = place(of: client)
    change(&elements[place].value)
  }

  private mutating func place(of client: String) -> Int {
    if latest < elements.count, elements[latest].client == client { return latest }
    latest = places[client] ?? newPlace(for: client)
    return latest
  }

  private mutating func newPlace(for client: String) -> Int {
    let name = elements.count < ClientTally.limit ? client : ClientTally.rest
    if let place = places[name] { return place }
    places[name] = elements.count
    elements.append((name, initial))
    return elements.count - 1
  }
}

/// The bounds of every ``ClientTallies``.
public enum ClientTally {
  /// The maximum number of separate clients: more than a configuration may have, with room for some reloads. Further
  /// clients count as ``rest``, so that no sequence of reloads fills the monitoring with time series.
  public static let limit = 2000
  /// The name of all further clients.
  public static let rest = "other"
}
