import HTTPCache
import HTTPMessages
import HTTPTypes
import UpstreamAdmission

/// Phase 9: the content of a response is stored, or passes on while it arrives.
extension FlightDriver {
  /// Stores the response if all of its content has arrived. Otherwise waits for the content.
  func store() -> Flight.Event? {
    guard let response, let attempt else { return nil }
    guard response.status != .notModified else { return freshen(by: response, attempt) }
    let limit = gateway.configuration.cache.largestContent
    guard response.contentLength ?? 0 <= limit else { return .stored(stream(response)) }
    var content = PartialContent(
      response.content, length: response.contentLength, upTo: limit, gateway.configuration.memory)
    do throws(ContentError) {
      if let reading = try content.readAtOnce() { return .stored(outcome(of: reading, content)) }
    } catch { return broken(error) }
    gateway.noteHead(of: attempt)
    let begun = content
    return wait {
      var content = begun
      do throws(ContentError) {
        let reading = try await content.read()
        return .stored(self.outcome(of: reading, content))
      } catch { return self.broken(error) }
    }
  }

  private func outcome(of reading: PartialContent.Reading, _ content: PartialContent) -> Outcome {
    guard let response, let attempt else { return .cancelled }
    switch reading {
    case .whole: return store(response, content, attempt)
    case .tooLong: return stream(content.response(response))
    case .refused:
      gateway.noteHead(of: attempt)
      response.content.cancel()
      self.attempt.take()?.release(.inconclusive)
      return .failure(.overMemory, mayBeReplaced: true)
    }
  }

  private func broken(_ error: ContentError) -> Flight.Event {
    if let attempt = attempt.take() {
      gateway.noteHead(of: attempt)
      attempt.release(.inconclusive)
    }
    guard error != .cancelled else { return .interrupted(byCaller: false) }
    return .failed(incomplete(error))
  }

  private func incomplete(_ error: ContentError) -> UpstreamFailure {
    let error = UpstreamError(
      error == .timedOut ? .responseTimeout : .responseIncomplete, .answered, "A response ended too early. \(error)")
    gateway.observer.noticed(.exchangeFailed(error))
    return UpstreamFailure(error, nextHop: nextHop)
  }

  private func store(_ response: UpstreamResponse, _ content: PartialContent, _ attempt: CatalogAttempt) -> Outcome {
    let (key, settings) = (flight.call.key, gateway.cacheSettings)
    do throws(ContentCodingError) {
      let whole = try StoredResponse(received(response, content.bytes), settings: settings)
      let isStored = gateway.cache.store(whole, for: key, of: CacheOwner(flight.subject))
      // The settings changed meanwhile, so the stored mark may be wrong. The waiting callers still get the response.
      if settings != gateway.cacheSettings { gateway.cache.remove(key) }
      attempt.isShareable = whole.isShareable
      return .response(whole, isStored: isStored, forwardStatus: nil)
    } catch .tooLarge where flight.call.coding == .gzip {
      return .stream(content.response(response))
    } catch {
      let sentence = "The content is not valid gzip, as its Content-Encoding says, or its decoded size is too large."
      return .failure(incomplete(.broken(sentence)), mayBeReplaced: true)
    }
  }

  /// Renews a stored response by a 304. A 304 may describe another version. Without validators, Apple sends that whole.
  private func freshen(by response: UpstreamResponse, _ attempt: CatalogAttempt) -> Flight.Event {
    response.content.cancel()
    guard let stored = flight.stored else {
      return .stored(.failure(.status(.notModified, nextHop: nextHop), mayBeReplaced: true))
    }
    let (key, settings) = (flight.call.key, gateway.cacheSettings)
    let renewed = gateway.cache.freshen(
      stored, for: key, by: received(response, []), settings: settings, of: CacheOwner(flight.subject))
    guard let renewed else {
      self.attempt = nil
      gateway.settle(attempt, of: miss.call)
      return .mismatched(at: receivedAt)
    }
    if settings != gateway.cacheSettings { gateway.cache.remove(key) }
    attempt.isShareable = renewed.response.isShareable
    return .stored(.response(renewed.response, isStored: renewed.isStored, forwardStatus: 304))
  }

  private func received(_ response: UpstreamResponse, _ content: [UInt8]) -> ReceivedResponse {
    ReceivedResponse(
      status: response.status, fields: response.fields,
      downstream: gateway.policy.responseFields(response.fields, version: response.version), body: content,
      sent: flight.call.fields, requestedAt: flight.requestedAt, receivedAt: receivedAt)
  }

  func pass() -> Outcome { response.map { stream($0) } ?? .cancelled }

  /// Lets the turn end when Apple has sent all of the content. More than the server keeps for a caller that reads slowly
  /// holds the turn until the deadline at most.
  private func stream(_ response: UpstreamResponse) -> Outcome {
    guard let attempt = attempt.take() else { return .stream(response) }
    gateway.noteHead(of: attempt)
    response.content.arriveAhead(upTo: CatalogGateway.contentAhead, chargedTo: miss.call.holder) { result in
      if case .success = result { attempt.release(.answered) } else { attempt.release(.inconclusive) }
    }
    if !attempt.isOver { gateway.expire(.turn(attempt), at: miss.end, miss.route) }
    return .stream(response)
  }
}

extension CatalogGateway {
  /// The most content of a request that arrives before its turn, and of a response that waits for its caller after its
  /// turn, in bytes: 1 MiB. Apple's requests have a few kilobytes, and nearly all responses fewer than this.
  static var contentAhead: Int { 1 << 20 }
}
