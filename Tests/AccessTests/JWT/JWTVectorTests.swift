import Cryptography
import DeveloperToken
import Testing

@testable import Access

@Suite("The examples of the RFCs")
struct JWTVectorTests {
  struct Vector: Sendable, CustomTestStringConvertible {
    let name: String
    let algorithm: JWTAlgorithm
    let key: String
    let token: String

    var testDescription: String { name }
  }

  static let vectors = [
    Vector(
      name: "RFC 7515 A.2", algorithm: .rs256,
      key: """
        {"kty":"RSA","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4\
        QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-\
        UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91\
        kzk2PAcDTW9gb54h4FRWyuXpoQ","e":"AQAB"}
        """,
      token: """
        eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cn\
        VlfQ.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9\
        CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO\
        --xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_I\
        oypGlUPQGe77Rw
        """),
    Vector(
      name: "RFC 7515 A.3", algorithm: .es256,
      key: """
        {"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",\
        "y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}
        """,
      token: """
        eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cn\
        VlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q
        """),
    Vector(
      name: "RFC 8037 A.4", algorithm: .edDSA,
      key: #"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#,
      token: """
        eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4k\
        i4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg
        """),
  ]

  @Test("verify with their keys, and do not verify for changed input or another algorithm", arguments: vectors)
  func verified(_ vector: Vector) throws {
    let jws = try JWS(compact: Array(vector.token.utf8).span)
    let key = try keySet([vector.key]).candidates(for: vector.algorithm, keyID: nil)[0].key
    #expect(verifies(key, jws.signature, jws.signingInput, vector.algorithm))
    #expect(!verifies(key, jws.signature, jws.signingInput + [0], vector.algorithm))
    for other in JWTAlgorithm.allCases where other != vector.algorithm {
      #expect(!verifies(key, jws.signature, jws.signingInput, other))
    }
  }

  // The testing macros cannot capture a span.
  private func verifies(_ key: PublicKey, _ signature: [UInt8], _ input: [UInt8], _ algorithm: JWTAlgorithm) -> Bool {
    key.verifies(signature.span, of: input.span, algorithm)
  }
}
