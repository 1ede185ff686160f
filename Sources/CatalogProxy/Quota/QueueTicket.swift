/// Names one that waits for its turn; never used again for another.
public struct QueueTicket: Sendable, Hashable {
  let index: Int
  let serial: UInt64
}
