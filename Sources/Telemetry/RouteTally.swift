/// The answers that one route gave: how many of which status, how long they took, how much they sent.
struct RouteTally: Sendable {
  /// Answers to one method with one status.
  struct Answers: Sendable {
    let method: StaticString
    let status: Int
    var count: Int
  }

  let route: StaticString
  /// A handful: one for each method and status that has occurred.
  private(set) var answers: [Answers] = []
  private(set) var durations = DurationHistogram()
  private(set) var bytes = 0

  init(_ route: StaticString) {
    self.route = route
  }

  mutating func count(method: StaticString, status: Int, bytes: Int, duration: Duration) {
    add(1, method: method, status: status)
    durations.add(duration)
    self.bytes &+= bytes
  }

  mutating func add(_ other: RouteTally) {
    for answers in other.answers { add(answers.count, method: answers.method, status: answers.status) }
    durations.add(other.durations)
    bytes &+= other.bytes
  }

  private mutating func add(_ count: Int, method: StaticString, status: Int) {
    for index in answers.indices where answers[index].status == status && answers[index].method.isSame(as: method) {
      answers[index].count &+= count
      return
    }
    answers.append(Answers(method: method, status: status, count: count))
  }
}
