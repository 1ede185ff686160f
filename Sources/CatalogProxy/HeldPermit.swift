import HTTPMessages
import Locks

/// One's turn at the upstream, given back when the answer is whole or given up: exactly once.
final class HeldPermit: @unchecked Sendable {
  // Sendable: `permit` is touched only under `mutex`.
  private let mutex = Mutex()
  private var permit: ConcurrencyPermit?
  private let proxy: CatalogGateway

  init(_ permit: ConcurrencyPermit, of proxy: CatalogGateway) {
    self.permit = permit
    self.proxy = proxy
  }

  deinit { release(.inconclusive) }

  /// Gives it back, with how the upstream took it. Does nothing a second time.
  func release(_ outcome: ConcurrencyOutcome) {
    let permit = mutex.withLock {
      defer { self.permit = nil }
      return self.permit
    }
    if let permit { proxy.release(permit, outcome) }
  }
}

/// Content that gives the turn back at its end.
final class PermittedContent: ContentReader, @unchecked Sendable {
  // Sendable by confinement, as the content itself.
  private let reader: any ContentReader
  private let permit: HeldPermit

  init(_ reader: any ContentReader, _ permit: HeldPermit) {
    self.reader = reader
    self.permit = permit
  }

  func read() async throws(ContentError) -> [UInt8]? {
    do throws(ContentError) {
      let part = try await reader.read()
      if part == nil { permit.release(.answered) }
      return part
    } catch {
      permit.release(.inconclusive)
      throw error
    }
  }

  func cancel() {
    reader.cancel()
    permit.release(.inconclusive)
  }
}
