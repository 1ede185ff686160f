public import Bytes
import JSON

/// The discovery document of an identity provider (OpenID Connect Discovery §3): where its keys are.
public struct ProviderMetadata: Sendable, Equatable {
  /// The most bytes of a document. Those of large providers have less than 10 KiB.
  public static let limit = 65_536
  /// The most JSON values in a document, because a value costs more memory than its bytes.
  private static let mostValues = 8192

  /// The `jwks_uri`, not checked.
  public let keySetURL: ByteString

  /// Returns the URL of the document of an issuer (§4): a slash at the end of the issuer counts once (§4.1).
  public static func url(of issuer: String) -> String {
    "\(issuer)\(issuer.utf8.last == UInt8(ascii: "/") ? "" : "/").well-known/openid-configuration"
  }

  /// Parses a document, which must be the issuer's own (§4.3): else a site with a similar address could name the keys.
  public init(_ json: [UInt8], issuer: String) throws(ProviderMetadataError) {
    guard json.count <= Self.limit else { throw .init("is longer than \(Self.limit) bytes.") }
    guard let value = JSONReader.read(json, values: Self.mostValues), value.isObject else {
      let isPage = json.first { $0 > 0x20 } == UInt8(ascii: "<")
      throw .init(isPage ? "is a web page, not JSON: the provider has none there." : "is not a JSON object.")
    }
    guard value.repeatedNames.isEmpty else { throw .init("repeats a member.") }
    guard case .string(let stated)? = value["issuer"] else { throw .init("has no issuer.") }
    guard stated == issuer else { throw Self.otherIssuer(stated, issuer) }
    guard case .string(let url)? = value["jwks_uri"] else { throw .init("has no jwks_uri, the address of the keys.") }
    keySetURL = url
  }

  private static func otherIssuer(_ stated: ByteString, _ issuer: String) -> ProviderMetadataError {
    let difference = IdentifierDifference(stated, ByteString(issuer)).map { ", which differs \($0)" } ?? ""
    return .init(
      "is that of the issuer \(Printable.quote(stated, limit: 200)), and jwt.issuer is "
        + "\(Printable.quote(issuer, limit: 200))\(difference). Write the iss that the tokens have.")
  }
}

/// The reason why bytes are not the discovery document of an issuer.
public struct ProviderMetadataError: Error, Sendable, Equatable, CustomStringConvertible {
  /// One sentence with “The discovery document” as its subject: what is wrong, and how to correct it if that is known.
  public let description: String

  init(_ predicate: String) { description = "The discovery document \(predicate)" }
}
