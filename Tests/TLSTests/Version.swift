import COpenSSL
import Testing

/// The versions in which each behaviour is tested.
enum Version: CaseIterable, CustomTestStringConvertible {
  case tls12
  case tls13

  var number: Int32 { self == .tls12 ? TLS1_2_VERSION : TLS1_3_VERSION }
  var testDescription: String { self == .tls12 ? "TLSv1.2" : "TLSv1.3" }

  /// A client's settings for this version.
  var settings: TLSClient.Settings { TLSClient.Settings(version: number) }
}
