import Bytes
public import Cryptography
public import HTTP1
import HTTPTypes

/// The name of a stored response at a store that several replicas share: 16 bytes that tell nothing of the request.
public struct SharedEntryKey: Hashable, Sendable {
  /// The number of bytes: 16, so that no two of 2⁴⁸ keys are likely to be equal.
  public static let count = 16

  /// The bytes.
  public let bytes: [UInt8]

  /// Creates a key from bytes of outside. Returns nil if it is not as long as a key.
  public init?(_ bytes: some Collection<UInt8>) {
    guard bytes.count == Self.count else { return nil }
    self.bytes = Array(bytes)
  }

  fileprivate init(code: InlineArray<32, UInt8>) { bytes = (0..<Self.count).map { code[$0] } }
}

/// A stored response in the form for a shared store, and how long it is of use there.
public struct SharedEntry: Sendable, Equatable {
  /// The bytes.
  public let bytes: [UInt8]
  /// In seconds, at least 1.
  public let lifetime: Int
  /// Whether the response is of use without a request to the upstream.
  public let isFresh: Bool
}

/// The form of stored responses outside of the process, for replicas with the same secret.
///
/// An entry has what the upstream sent, and each replica judges it by its own settings and its own clock. The fields of the
/// request are part of the key, and so the same for the reader. Only replicas can make an entry that others read:
/// HMAC-SHA-256 covers all bytes, with the key among them.
///
///     offset  length  content
///          0      32  HMAC-SHA-256 of the rest
///         32       1  version of the format
///         33      16  key
///         49       4  seconds before the expiry at which the response becomes stale
///         53       8  arrival at the replica, in seconds since 1970
///         61       4  seconds that the response took
///         65       2  status
///         67       1  1: the content is gzipped; 2: it arrived so
///         68       4  length of the content without a coding
///         72       4  length of the fields
///         76       …  the fields as a section of HTTP/1.1, and the content
public struct SharedEntryCodec: Sendable {
  /// The version of the format. It is in the key as well, so that replicas of other versions do not find an entry.
  public static let version: UInt8 = 2
  /// The position of the four bytes that tell when an entry becomes stale, for the store's scripts.
  public static let staleOffset = 49
  /// The longest time that an entry stays at the store, in seconds: 7 days. Apple may withdraw a song, and a store that
  /// evicts nothing must not fill up with what no caller wants.
  public static let longestLifetime = 604_800

  private static let codeLength = 32
  private static let keyOffset = 33
  private static let headLength = 76
  /// The most bytes by which gzip may exceed the content: 1 KiB.
  private static let mostLoss = 1024
  /// The most bytes of an entry without its content: the head and the fields.
  private static let mostOverhead = headLength + mostLoss + HTTP1Limits().headerSection + 2
  /// The most bytes of an entry: 1 MiB of content, and less than 35 KiB besides.
  public static let mostBytes = mostOverhead + CacheSettings().largestContent

  private let authenticator: MessageAuthenticator
  private let scope: [UInt8]

  /// Creates a codec for the responses of an upstream to the requests of a team. The replicas have the secret of the
  /// authenticator in common, for this purpose only.
  public init(authenticator: MessageAuthenticator, upstream: String, team: String) {
    self.authenticator = authenticator
    // Begins with 0, and what authenticates an entry begins with the version, so neither can be taken for the other.
    var scope: [UInt8] = [0, Self.version]
    scope.append(framed: Array(upstream.utf8).span)
    scope.append(framed: Array(team.utf8).span)
    self.scope = scope
  }

  /// Returns the key of the response to a request with all these fields, without the credential; nil if it is a user's.
  public func key(of target: CacheKey, sending sent: FieldLines) -> SharedEntryKey? {
    guard !sent.has("music-user-token") else { return nil }
    var message = scope
    message.reserveCapacity(scope.count + target.bytes.count + sent.bytes.count + 8 * sent.count)
    message.append(framed: target.bytes.span)
    let bytes = sent.bytes.span
    for line in sent.lines {
      let name = sent.bytes[line.name].map(\.lowercased)
      message.append(framed: name.span)
      message.append(framed: bytes.extracting(line.value))
    }
    return SharedEntryKey(code: authenticator.code(of: message.span))
  }

  /// Returns an entry, or nil if the response must not be at the store or is of no use there.
  public func encode(_ response: StoredResponse, for key: SharedEntryKey, now: CacheTime) -> SharedEntry? {
    let (source, content, freshness) = (response.judged.source, response.judged.content, response.judged.freshness)
    guard response.isStorable, !freshness.noCache, !source.fields.has("set-cookie") else { return nil }
    let left = Selection(response, now: now).timeToLive
    let stale = max(freshness.staleWhileRevalidate, freshness.staleIfError)
    let lifetime = min(left + stale, Self.longestLifetime)
    guard lifetime > 0 else { return nil }
    guard let fields = Self.section(source.fields) else { return nil }
    let resident = now.seconds(since: source.receivedAt)
    var bytes = [UInt8](repeating: 0, count: Self.codeLength)
    let body = content.gzip ?? content.identity
    // Gzip in many members can be longer than what it stands for.
    guard body.count <= content.identity.count + Self.mostLoss else { return nil }
    bytes.reserveCapacity(Self.headLength + fields.count + body.count)
    bytes.append(Self.version)
    bytes.append(contentsOf: key.bytes)
    bytes.append(bigEndian: max(lifetime - max(left, 0), 0), bytes: 4)
    bytes.append(bigEndian: now.wall - resident, bytes: 8)
    bytes.append(bigEndian: min(source.receivedAt.seconds(since: source.requestedAt), Int(Int32.max)), bytes: 4)
    bytes.append(bigEndian: response.status.code, bytes: 2)
    bytes.append((content.gzip == nil ? 0 : 1) | (content.received == .gzip ? 2 : 0))
    bytes.append(bigEndian: content.identity.count, bytes: 4)
    bytes.append(bigEndian: fields.count, bytes: 4)
    bytes.append(contentsOf: fields)
    bytes.append(contentsOf: body)
    let code = authenticator.code(of: bytes.span.extracting(Self.codeLength...))
    for index in code.indices { bytes[index] = code[index] }
    return SharedEntry(bytes: bytes, lifetime: lifetime, isFresh: left > 0)
  }

  /// Returns the lines as a section, or nil if a reader would refuse it.
  private static func section(_ fields: FieldLines) -> [UInt8]? {
    guard fields.count <= HTTP1Limits().fieldLines else { return nil }
    var section: [UInt8] = []
    fields.appendSection(to: &section)
    return section.count <= HTTP1Limits().headerSection + 2 ? section : nil
  }

  /// Returns the response in an entry, or nil if it is not what a replica has stored under this key. Its age includes the
  /// time since its arrival by the wall clock. An entry from the future counts as just arrived.
  public func decode(
    _ entry: [UInt8], for key: SharedEntryKey, sending sent: FieldLines, now: CacheTime, settings: CacheSettings
  ) -> StoredResponse? {
    guard entry.count >= Self.headLength, entry.count <= Self.mostOverhead + settings.largestContent,
      entry[Self.codeLength] == Self.version,
      entry[Self.keyOffset..<Self.keyOffset + SharedEntryKey.count] == key.bytes[...]
    else { return nil }
    let bytes = entry.span
    guard authenticator.verifies(bytes.extracting(..<Self.codeLength), of: bytes.extracting(Self.codeLength...)) else {
      return nil
    }
    return Self.response(in: bytes, sent, now, settings)
  }

  /// Reads an entry whose code is right. It may still be of a replica with a defect, so it proves nothing.
  private static func response(
    in bytes: Span<UInt8>, _ sent: FieldLines, _ now: CacheTime, _ settings: CacheSettings
  ) -> StoredResponse? {
    let (code, flags) = (bytes.bigEndian(at: 65, bytes: 2), bytes[67])
    let (length, start) = (bytes.bigEndian(at: 68, bytes: 4), headLength + bytes.bigEndian(at: 72, bytes: 4))
    guard (200...599).contains(code), flags <= 3, flags != 2, length <= settings.largestContent, start <= bytes.count,
      let fields = FieldLines(section: bytes.extracting(headLength..<start))
    else { return nil }
    let arrival = min(max(bytes.bigEndian(at: 53, bytes: 8), 0), now.wall)
    let resident = min(now.wall - arrival, FieldText.mostSeconds)
    let receivedAt = CacheTime(monotonic: now.monotonic - resident * 1_000_000_000, wall: arrival)
    let delay = min(bytes.bigEndian(at: 61, bytes: 4), FieldText.mostSeconds)
    var requestedAt = receivedAt
    requestedAt.monotonic -= delay * 1_000_000_000
    let received = ReceivedResponse(
      status: HTTPResponse.Status(code: code), fields: fields, sent: sent, requestedAt: requestedAt,
      receivedAt: receivedAt)
    var content: [UInt8] = []
    content.reserveCapacity(bytes.count - start)
    content.append(copying: bytes.extracting(start...))
    let coding: ContentCoding = flags & 2 != 0 ? .gzip : .identity
    guard let stored = StoredContent(content, isGzip: flags & 1 != 0, length: length, received: coding) else {
      return nil
    }
    let response = StoredResponse(received, content: stored, settings: settings)
    return response.isStorable ? response : nil
  }
}

extension [UInt8] {
  /// Appends the length in four bytes, and the bytes.
  fileprivate mutating func append(framed bytes: Span<UInt8>) {
    append(bigEndian: bytes.count, bytes: 4)
    append(copying: bytes)
  }

  /// Appends the low bytes of a number, the highest first.
  fileprivate mutating func append(bigEndian number: Int, bytes count: Int) {
    for index in (0..<count).reversed() { append(UInt8(truncatingIfNeeded: number >> (8 * index))) }
  }
}

extension Span<UInt8> {
  /// Returns the number in these bytes, the highest first.
  fileprivate func bigEndian(at offset: Int, bytes count: Int) -> Int {
    var number = 0
    for index in offset..<offset + count { number = number << 8 | Int(self[index]) }
    return number
  }
}
