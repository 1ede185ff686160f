import Bytes
import Testing

@testable import Access

@Suite("The discovery document of a provider")
struct ProviderMetadataTests {
  @Test(
    "has a URL below the issuer, and a slash at its end counts once",
    arguments: [
      ("https://accounts.google.com", "https://accounts.google.com/.well-known/openid-configuration"),
      ("https://tenant.eu.auth0.com/", "https://tenant.eu.auth0.com/.well-known/openid-configuration"),
      (
        "https://login.microsoftonline.com/0b1c/v2.0",
        "https://login.microsoftonline.com/0b1c/v2.0/.well-known/openid-configuration"
      ),
      (
        "https://dev-1.okta.com/oauth2/default",
        "https://dev-1.okta.com/oauth2/default/.well-known/openid-configuration"
      ),
      ("https://id.example.com/realms/music", "https://id.example.com/realms/music/.well-known/openid-configuration"),
    ])
  func url(_ issuer: String, _ url: String) {
    #expect(ProviderMetadata.url(of: issuer) == url)
  }

  @Test("names the URL of the keys, beside members that the server does not need")
  func keys() throws {
    let json = #"{"jwks_uri":"https://keys.example.com/a","issuer":"https://id.example.com","x":{"y":[1]}}"#
    #expect(
      try ProviderMetadata(Array(json.utf8), issuer: "https://id.example.com").keySetURL == "https://keys.example.com/a"
    )
  }

  @Test(
    "is refused with a sentence",
    arguments: [
      (#"{"issuer":"https://id.example.com/","jwks_uri":"https://a"}"#, "differs only by a slash at the end"),
      (#"{"issuer":"https://ID.example.com","jwks_uri":"https://a"}"#, "differs only by upper and lower case"),
      (#"{"issuer":"http://id.example.com","jwks_uri":"https://a"}"#, "differs only by http:// in place of https://"),
      (
        #"{"issuer":"https://login.microsoftonline.com/{tenantid}/v2.0","jwks_uri":"https://a"}"#,
        "is that of the issuer “https://login.microsoftonline.com/{tenantid}/v2.0”"
      ),
      (#"{"issuer":"https://id.example.com"}"#, "has no jwks_uri"), (#"{"jwks_uri":"https://a"}"#, "has no issuer"),
      (#"{"issuer":["https://id.example.com"],"jwks_uri":"https://a"}"#, "has no issuer"),
      (#"{"issuer":"https://id.example.com","issuer":"https://b","jwks_uri":"https://a"}"#, "repeats a member"),
      (" <!DOCTYPE html>", "is a web page"), ("[]", "is not a JSON object"), ("", "is not a JSON object"),
      (#"{"x":["# + String(repeating: "1,", count: 9000) + "1]}", "is not a JSON object"),
      (String(repeating: " ", count: 70_000), "is longer than 65536 bytes"),
    ])
  func refused(_ json: String, _ words: String) {
    let error = #expect(throws: ProviderMetadataError.self) {
      try ProviderMetadata(Array(json.utf8), issuer: "https://id.example.com")
    }
    #expect(error?.description.contains(words) == true, "\(error?.description ?? "")")
  }
}
