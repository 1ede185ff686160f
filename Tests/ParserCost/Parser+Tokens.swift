#if DEBUG
  import Access
  import Bytes
  import DeveloperToken
  import HTTPMessages

  extension Parser {
    /// JWTs of callers, as access control takes them, and developer tokens, as `inspect` and the emulator do.
    static var tokens: [Parser] {
      readers.flatMap { name, own, body in
        places.filter { own.contains($0.0) }.map { place, header, claims in
          Parser(
            "\(name)-\(place)", { token(header: filled(header, $0), claims: filled(claims, $0)) }, body)
        } + [Parser("\(name)-raw", { $0 }, body)]
      } + [Parser("origin", { _ = try? Origin(String(decoding: $0, as: UTF8.self)) })]
    }

    /// Each with what it looks at.
    private static var readers: [(String, places: [String], ([UInt8]) -> Void)] {
      [
        ("jwt", ["typ", "kid", "header-name", "claims-name", "iss", "auds", "scope"], jwt),
        ("inspector", ["kid", "iss", "origin"], { _ = inspector.inspect($0.span) }),
      ]
    }

    private static let header = #"{"alg":"ES256","kid":"ABC1234567","typ":"JWT"}"#
    private static let claims = #"{"iss":"https://id.example.com/","aud":"music","exp":1795000300,"scope":"a"}"#

    /// Where `§` stands the text is put.
    private static let places: [(String, header: String, claims: String)] = [
      ("typ", #"{"alg":"ES256","typ":"§"}"#, claims), ("kid", #"{"alg":"ES256","kid":"§"}"#, claims),
      ("header-name", #"{"§":0,"alg":"ES256"}"#, claims), ("claims-name", header, #"{"§":0,"iss":"a"}"#),
      ("iss", header, #"{"iss":"§"}"#),
      ("auds", header, #"{"iss":"https://id.example.com/","aud":[§"a"]}"#),
      ("scope", header, #"{"iss":"https://id.example.com/","aud":"music","exp":1795000300,"scope":"§"}"#),
      ("origin", header, #"{"iss":"DEF1234567","iat":1795000000,"exp":1795000300,"origin":["§"]}"#),
    ]

    private static let inspector = Inspector(now: 1_795_000_000)

    /// A client of one issuer, whose keys have not come.
    static let policy = AccessPolicy(
      clients: [
        Client(
          id: "backend",
          credential: .jwt(
            JWTRules(
              issuer: "https://id.example.com/", audiences: ["music"],
              requiredClaims: [.init(name: "scope", values: ["a", "b"])]), .file("keys"))),
        Client(id: "web", credential: .origin, origins: .only([page].compactMap { $0 })),
      ], anonymous: nil)

    private static let page = try? OriginPattern("https://*.app.example.com")

    private static func jwt(_ bytes: [UInt8]) {
      _ = policy.identify(PresentedCredentials(credential: .bearer(bytes[...])), now: 1_795_000_000) { _ in nil }
    }

    private static func filled(_ template: String, _ text: [UInt8]) -> [UInt8] {
      let parts = template.split(separator: "§", omittingEmptySubsequences: false)
      return parts.count == 2 ? Array(parts[0].utf8) + text + Array(parts[1].utf8) : Array(template.utf8)
    }

    private static func token(header: [UInt8], claims: [UInt8]) -> [UInt8] {
      var token = encoded(header) + [UInt8(ascii: ".")] + encoded(claims) + [UInt8(ascii: ".")]
      token += [UInt8](repeating: UInt8(ascii: "A"), count: 86)
      return token
    }

    private static func encoded(_ bytes: [UInt8]) -> [UInt8] {
      let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
      return stride(from: 0, to: bytes.count * 8, by: 6).map { bit in
        let (index, shift) = (bit / 8, bit % 8)
        let pair = UInt16(bytes[index]) << 8 | (index + 1 < bytes.count ? UInt16(bytes[index + 1]) : 0)
        return alphabet[Int(pair >> UInt16(10 - shift)) & 63]
      }
    }
  }
#endif
