// Whether a request can wait, and how long it would have to.
extension ConcurrencyLimit {
  /// When to come back; nil if the request can wait for its turn.
  func delay(of request: Request, _ caller: Caller, _ client: Client) -> Duration? {
    if !request.isRetry, !hasRoom(caller, of: client) { return max(limits.retryAfter, wait(caller, client) ?? .zero) }
    guard let wait = wait(request.isRetry ? Caller() : caller, client), wait > request.patience else { return nil }
    return wait
  }

  private func hasRoom(_ caller: Caller, of client: Client) -> Bool {
    let room = limits.waiting - queues.count
    return caller.queue.count < limits.waitingOfCaller * room
      && (client.share == nil || client.waiting < limits.waitingOfClient * room)
  }

  /// About how long a caller's next request would wait for its turn, if all who wait now stay; nil if no rate is known.
  ///
  /// Before it go those of its caller's that wait, as many of each other caller of the client in the same rounds, and as
  /// many of each other client in theirs.
  private func wait(_ caller: Caller, _ client: Client) -> Duration? {
    guard let rate = pacer.rate else { return nil }
    let own = caller.queue.count + 1
    let ofClient = min(own * max(client.order.count, 1), client.waiting + 1)
    let clients = order.count + held.count + (client.account.turn == nil && !client.isHeld ? 1 : 0)
    let all = min(ofClient * max(clients, 1), queues.count + 1)
    let pace = rate * pacer.limits.holdFactor
    var wait = Double(all) / pace
    if let share = client.shareOfRate { wait = max(wait, Double(ofClient) / (pace * share)) }
    return Duration(inSeconds: max(pacer.opening - now, 0) + wait)
  }
}

extension ConcurrencyLimit.Client {
  /// The most of the rate that it may have; nil for all. Places under way cannot be taken back, so an eighth of them is
  /// left to others; the pacer's turns come one at a time, and need not be.
  var shareOfRate: Double? { share.flatMap { $0 < QuotaCaller.usualShare ? max($0, 0.001) : nil } }
}
