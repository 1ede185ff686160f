import Cryptography
import HTTP1
import HTTPCache
import HTTPTypes

/// Decodes the input as an entry of the shared cache. As it is, it must be a miss. With a right
/// version, key and code, it is what a replica with a defect could have stored: then the response stays within the limits,
/// and is the same after it is encoded and decoded again.
func fuzzSharedEntry(_ bytes: [UInt8]) {
  precondition(decode(bytes) == nil, "an entry without a code")
  guard let response = decode(authenticated(bytes)) else { return }
  check(response)
}

/// The code, which the input need not contain, and the version and the key behind it.
private let headLength = 32 + 1 + SharedEntryKey.count

private let authenticator: MessageAuthenticator = {
  let secret = SecretBytes(copying: [UInt8](repeating: 7, count: 32).span)
  do { return try MessageAuthenticator(key: secret) } catch { preconditionFailure("\(error)") }
}()

private let codec = SharedEntryCodec(authenticator: authenticator, upstream: "https://a.example", team: "TEAM123456")
private let sent: FieldLines = [.accept: "application/json"]
private let key: SharedEntryKey = {
  guard let key = codec.key(of: CacheKey("/v1/catalog/us/songs/1"), sending: sent) else { preconditionFailure() }
  return key
}()

private let now = CacheTime(monotonic: 1_000_000_000, wall: 1_800_000_000)

private let settings: CacheSettings = {
  var settings = CacheSettings()
  (settings.maxBytes, settings.largestContent) = (1_000_000, 100_000)
  return settings
}()

/// The input behind a right version and key, with the code of both.
private func authenticated(_ bytes: [UInt8]) -> [UInt8] {
  let message = [SharedEntryCodec.version] + key.bytes + bytes
  let code = authenticator.code(of: message.span)
  return code.indices.map { code[$0] } + message
}

private func decode(_ bytes: [UInt8]) -> StoredResponse? {
  codec.decode(bytes, for: key, sending: sent, now: now, settings: settings)
}

private func check(_ response: StoredResponse) {
  precondition(response.isStorable && response.isShareable)
  precondition(response.representation(.identity).body.count <= settings.largestContent)
  let selection = Selection(response, now: now)
  precondition((0...1 << 31).contains(selection.age) && selection.timeToLive <= 1 << 31)
  guard let entry = codec.encode(response, for: key, now: now) else { return }
  precondition((1...SharedEntryCodec.longestLifetime).contains(entry.lifetime))
  guard let again = decode(entry.bytes) else { preconditionFailure("an entry of a decoded response") }
  for coding in [ContentCoding.identity, .gzip] {
    precondition(again.representation(coding).body == response.representation(coding).body)
  }
  precondition(Selection(again, now: now).timeToLive == selection.timeToLive)
}
