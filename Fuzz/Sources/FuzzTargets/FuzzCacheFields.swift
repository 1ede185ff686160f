import CatalogProxy
import HTTP1
import HTTPCache
import HTTPTypes

/// Treats each line of the input as a request or response field, which its first byte
/// selects. Traps unless the results of the cache keep the promises below.
func fuzzCacheFields(_ bytes: [UInt8]) {
  var request = RequestDirectives()
  var fields = FieldLines()
  for line in bytes.split(separator: 0x0a) {
    let value = Array(line.dropFirst())
    switch line.first {
    case UInt8(ascii: "c"): checkDirectives(value, &request)
    case UInt8(ascii: "p"): request.add(pragma: value.span)
    case UInt8(ascii: "a"): checkCoding(value)
    case UInt8(ascii: "t"): checkTags(value)
    case .some(let letter): addField(letter, value, to: &fields)
    case nil: break
    }
  }
  check(fields, request)
}

/// Checks that letter case does not matter, and that a repeated line changes nothing.
private func checkDirectives(_ value: [UInt8], _ request: inout RequestDirectives) {
  var (once, twice, lowercase) = (RequestDirectives(), RequestDirectives(), RequestDirectives())
  once.add(cacheControl: value.span)
  twice.add(cacheControl: value.span)
  twice.add(cacheControl: value.span)
  let folded = value.map { lowercased($0) }
  lowercase.add(cacheControl: folded.span)
  precondition(once == twice && once == lowercase)
  for seconds in [once.maxAge, once.minFresh, once.maxStale, once.staleIfError] {
    precondition((0...1 << 31).contains(seconds ?? 0))
  }
  request.add(cacheControl: value.span)
}

/// Checks that letter case does not matter, and that only `gzip` or `*` selects gzip.
private func checkCoding(_ value: [UInt8]) {
  let coding = ContentCoding.preferred(acceptEncoding: value.span)
  let lowercase = value.map { lowercased($0) }
  precondition(coding == ContentCoding.preferred(acceptEncoding: lowercase.span))
  precondition(coding == .identity || contains(lowercase, "gzip") || contains(lowercase, "*"))
}

/// Checks that a condition is met only if it names the tag, and always if the tag comes first.
private func checkTags(_ value: [UInt8]) {
  let response = makeResponse([.eTag: "\"x\""])
  var preconditions = Preconditions()
  preconditions.add(ifNoneMatch: value.span)
  let isMet = response.isNotModified(preconditions, now: moment(0))
  precondition(!isMet || contains(value, "\"x\"") || contains(value, "*"))
  var leading = Preconditions()
  let list = Array("W/\"x\" ,".utf8) + value
  leading.add(ifNoneMatch: list.span)
  precondition(response.isNotModified(leading, now: moment(0)))
  var dates = Preconditions()
  dates.add(ifModifiedSince: value.span)
  _ = response.isNotModified(dates, now: moment(0))
}

/// Checks that ages and lifetimes stay within bounds, that a hit is fresh, and that prohibitions always have effect.
private func check(_ fields: FieldLines, _ request: RequestDirectives) {
  let response = makeResponse(fields)
  for seconds in [0, 1, 59, 86_400, 1 << 40] {
    let selection = Selection(response, now: moment(seconds))
    precondition((0...1 << 31).contains(selection.age) && selection.timeToLive <= 1 << 31)
    precondition(
      selection.fields(CacheStatus(.hit, timeToLive: selection.timeToLive), isValidated: false) != .empty)
    let cache = ResponseCache(settings: settings)
    let key = CacheKey("/")
    precondition(cache.store(response, for: key) == response.isStorable)
    let lookup = cache.lookup(key, sending: [:], request: RequestDirectives(), now: moment(seconds))
    if case .hit(let selection) = lookup { precondition(selection.isFresh) }
    _ = cache.lookup(key, sending: [.acceptLanguage: "de"], request: request, now: moment(seconds))
  }
  let mustUnderstand = fields[.cacheControl]?.lowercased().contains("must-understand") ?? false
  precondition(mustUnderstand || !makeResponse(fields.adding([.cacheControl: "no-store"])).isStorable)
  precondition(!makeResponse(fields.adding([.cacheControl: "private"])).isStorable)
  precondition(!makeResponse(fields.adding([.vary: "*"])).isStorable)
  let uncached = Selection(makeResponse(fields.adding([.cacheControl: "no-cache"])), now: moment(0))
  precondition(!uncached.isFresh && !uncached.mayServeOnError(request))
}

private func addField(_ letter: UInt8, _ value: [UInt8], to fields: inout FieldLines) {
  let names: [UInt8: HTTPField.Name] = [
    UInt8(ascii: "C"): .cacheControl, UInt8(ascii: "E"): .expires, UInt8(ascii: "A"): .age, UInt8(ascii: "D"): .date,
    UInt8(ascii: "V"): .vary, UInt8(ascii: "T"): .eTag, UInt8(ascii: "L"): .lastModified,
    UInt8(ascii: "Y"): .contentType,
  ]
  guard let name = names[letter] else { return }
  fields.append(HTTPField(name: name, value: String(decoding: value, as: UTF8.self)))
}

extension FieldLines {
  fileprivate func adding(_ other: FieldLines) -> FieldLines {
    var all = self
    all.append(contentsOf: other)
    return all
  }
}

/// A small cache, because its creation is faster.
private let settings = {
  var settings = CacheSettings()
  settings.maxBytes = 64_000
  return settings
}()

private func makeResponse(_ fields: FieldLines) -> StoredResponse {
  let received = ReceivedResponse(
    status: .ok, fields: fields, requestedAt: moment(0), receivedAt: moment(0))
  do { return try StoredResponse(received, body: Array("{}".utf8), settings: settings) } catch {
    preconditionFailure("\(error)")
  }
}

private func moment(_ seconds: Int) -> CacheTime {
  CacheTime(monotonic: seconds.multipliedReportingOverflow(by: 1_000_000_000).partialValue, wall: 1_800_000_000)
}

private func lowercased(_ byte: UInt8) -> UInt8 { (0x41...0x5a).contains(byte) ? byte | 0x20 : byte }

private func contains(_ bytes: [UInt8], _ text: String) -> Bool {
  let text = Array(text.utf8)
  return bytes.indices.contains { bytes[$0...].starts(with: text) }
}
