import CatalogProxy
import HTTPMessages

/// Validates the input as a request target. Traps unless the validated target is what is
/// sent, and validates to the same target again.
func fuzzCatalogPath(_ bytes: [UInt8]) {
  do {
    let target = try judge(bytes, allowsMe: true)
    check(target, of: bytes)
    if target.kind == .me {
      precondition((try? judge(bytes, allowsMe: false)) == nil, "served only if it is forwarded")
    }
  } catch {
    precondition((400...404).contains(error.status.code) && !error.detail.isEmpty)
  }
}

private func judge(_ bytes: [UInt8], allowsMe: Bool) throws(ErrorResponse) -> CatalogTarget {
  let (text, query) = split(bytes)
  let path: CatalogPath
  do { path = try CatalogPath(text.span, allowsMe: allowsMe) } catch { throw error.response(quoting: text[...]) }
  do throws(TargetDefect) {
    guard let query else { return try CatalogTarget(path, query: nil, hasUserToken: allowsMe) }
    return try CatalogTarget(path, query: query.span, hasUserToken: allowsMe)
  } catch { throw error.response(quoting: query.map { $0[...] } ?? []) }
}

private func split(_ bytes: [UInt8]) -> (path: [UInt8], query: [UInt8]?) {
  guard let mark = bytes.firstIndex(of: UInt8(ascii: "?")) else { return (bytes, nil) }
  return (Array(bytes[..<mark]), Array(bytes[(mark + 1)...]))
}

private func check(_ target: CatalogTarget, of received: [UInt8]) {
  let (path, query) = split(target.bytes)
  let encoded = split(received).query?.flatMap { byte in
    "\"<>".utf8.contains(byte) ? Array(byte == 0x22 ? "%22".utf8 : byte == 0x3C ? "%3C".utf8 : "%3E".utf8) : [byte]
  }
  precondition(query == encoded, "the query is sent byte for byte, except for what only needs encoding")
  let safe = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/".utf8)
  precondition(path.allSatisfy(safe.contains), "a path without a second reading")
  let segments = path.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
  precondition(segments.dropFirst().allSatisfy { !$0.isEmpty && $0.contains { $0 != UInt8(ascii: ".") } })
  precondition(segments[1].elementsEqual("v1".utf8))
  precondition((query ?? []).allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "#") }, "one request line")

  guard let again = try? judge(target.bytes, allowsMe: true) else { preconditionFailure("refused the second time") }
  precondition(again.bytes == target.bytes && again.cacheKey == target.cacheKey && again.kind == target.kind)
  precondition(again.route.description == target.route.description && again.wantsUserToken == target.wantsUserToken)
  precondition((target.kind == .me) == segments[2].elementsEqual("me".utf8), "me is me, however it was spelled")
  precondition(!target.isStorable || !target.wantsUserToken)

  guard let key = try? judge(target.cacheKey, allowsMe: true) else { preconditionFailure("no key") }
  precondition(key.cacheKey == target.cacheKey && key.wantsUserToken == target.wantsUserToken, "a key is its own key")
}
