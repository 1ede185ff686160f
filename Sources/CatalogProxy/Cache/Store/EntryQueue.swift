/// The ends of a first-in first-out queue whose links are in the entries themselves.
struct EntryQueue {
  /// The entry that came last; -1 if the queue is empty.
  var newest = -1
  /// The entry that goes first; -1 if the queue is empty.
  var oldest = -1
  /// What its entries cost together.
  var bytes = 0
}
