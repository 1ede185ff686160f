/// What people mistake for a MusicKit private key.
public enum KeyKind: Sendable, Hashable, CaseIterable {
  case empty, path, json, certificate, certificateRequest, publicKey, rsaPrivateKey, ecPrivateKey, dsaPrivateKey
  case ecParameters, encryptedPrivateKey, opensshPrivateKey, pgp, pkcs12, jwt, severalBlocks, otherPEM, utf16, binary
  case notAKey

  /// The sentence without its subject.
  var predicate: String {
    switch self {
    case .empty: "is empty."
    case .path: "is the path of a file rather than a key; give it as musickit.keyFile."
    case .json: "is JSON; give only the key in it."
    case .ecPrivateKey:
      "is a private key in the older SEC1 form (EC PRIVATE KEY), which Apple does not hand out; if it is the right"
        + " one, openssl pkcs8 -topk8 -nocrypt -in FILE converts it."
    case .encryptedPrivateKey:
      "is an encrypted private key, and there is no pass phrase to give here; openssl pkcs8 -in FILE decrypts it."
    case .jwt:
      "is a finished token (JWT), not the key that signs it; the server makes tokens by itself. "
        + SigningKeyError.Reason.advice
    case .utf16: "is text in UTF-16; save it as UTF-8 or plain ASCII."
    case .severalBlocks: "holds several PEM blocks; it must hold one, the private key."
    default: "is \(name), not a private key for MusicKit. \(SigningKeyError.Reason.advice)"
    }
  }

  private var name: String {
    switch self {
    case .certificate: "a certificate"
    case .certificateRequest: "a certificate signing request"
    case .publicKey: "a public key"
    case .rsaPrivateKey: "an RSA private key"
    case .dsaPrivateKey: "a DSA private key"
    case .ecParameters: "a set of EC parameters"
    case .opensshPrivateKey: "an OpenSSH private key"
    case .pgp: "a PGP block"
    case .pkcs12: "a PKCS#12 (.p12) file"
    case .otherPEM: "a PEM block of another kind"
    case .binary: "a binary file"
    default: "something else"
    }
  }
}

extension KeyKind {
  /// The kind that a PEM label (RFC 7468 §4) announces; nil for the right one. Labels come without their spaces,
  /// which pasting may have eaten.
  static func labelled(_ label: String) -> KeyKind? {
    switch label {
    case "PRIVATEKEY": nil
    case "CERTIFICATE", "X509CERTIFICATE", "TRUSTEDCERTIFICATE", "PKCS7", "CMS": .certificate
    case "CERTIFICATEREQUEST", "NEWCERTIFICATEREQUEST": .certificateRequest
    case "PUBLICKEY", "RSAPUBLICKEY", "SSH2PUBLICKEY": .publicKey
    case "RSAPRIVATEKEY": .rsaPrivateKey
    case "ECPRIVATEKEY": .ecPrivateKey
    case "DSAPRIVATEKEY": .dsaPrivateKey
    case "ECPARAMETERS": .ecParameters
    case "ENCRYPTEDPRIVATEKEY": .encryptedPrivateKey
    case "OPENSSHPRIVATEKEY": .opensshPrivateKey
    case "PGPPRIVATEKEYBLOCK", "PGPPUBLICKEYBLOCK", "PGPMESSAGE": .pgp
    default: .otherPEM
    }
  }
}
