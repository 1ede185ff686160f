/// What a descriptor is waited for.
public struct Interest: OptionSet, Sendable {
  /// Its bits.
  public let rawValue: UInt8

  /// A set of bits.
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// That bytes, a connection or the end can be read.
  public static let read = Interest(rawValue: 1)
  /// That bytes can be written, or that an attempt to connect has come to an end.
  public static let write = Interest(rawValue: 2)
  /// That the peer sends no more, whatever it has sent before.
  public static let hangup = Interest(rawValue: 4)
}

/// Names a slot of the loop and the channel that it had when the interest was registered. So the loop drops an event
/// of a descriptor that was closed in the same turn.
struct SlotToken: Hashable {
  let index: UInt32
  let generation: UInt32
}

/// Tells which descriptors are ready. Level-triggered: says so again until the cause is gone.
///
/// A descriptor without interest is not watched at all, not even for errors: a peer's reset must not spin a loop
/// whose connection is busy elsewhere.
protocol Poller: AnyObject {
  /// Changes what `descriptor` is watched for, from `old` to `new`.
  func update(_ descriptor: Int32, from old: Interest, to new: Interest, token: SlotToken) throws(SocketError)

  /// Waits for at most `milliseconds` (for ever if negative) and appends the slots that are ready.
  func wait(milliseconds: Int32, into ready: inout [SlotToken])
}
