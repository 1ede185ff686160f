import TestSupport
import Testing

/// Each limit has its smallest value, one second. No test here measures the elapsed time.
@Suite("A slow client")
struct SlowClientTests {
  @Test("gets 408 if its header section is not complete in time, even if it sends single bytes")
  func headerSection() throws {
    let connection = try Ground().serve(["SERVER_LIMITS_HEADER_SECTION": "1s"]).connect()
    connection.send("GET /token HTTP/1.1\r\nHost: a\r\nX-Drip: ")
    let dripping = Dripper(connection)
    let response = try connection.response()
    dripping.stop()
    #expect(response.status == 408)
    #expect(response.errorCode == "request_timeout")
    #expect(response["Connection"] == "close")
  }

  @Test("gets 408 if its content does not arrive in time")
  func content() throws {
    let connection = try Ground().serve(["SERVER_LIMITS_BODY_PROGRESS": "1s"]).connect()
    connection.send("POST /token HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n{")
    #expect(try connection.response().status == 408)
    #expect(try connection.isClosedByPeer())
  }

  @Test("is disconnected without a response if it sends nothing, before or after a request")
  func idle() throws {
    let server = try Ground().serve(["SERVER_LIMITS_IDLE": "1s"])
    let silent = try server.connect()
    let quiet = try server.connect()
    quiet.send("GET /token HTTP/1.1\r\nHost: a\r\n\r\n")
    #expect(try quiet.response().status == 200)
    #expect(try quiet.isClosedByPeer())
    #expect(try silent.isClosedByPeer())
  }

  @Test("gets an alert if it does not finish its TLS handshake in time")
  func handshake() throws {
    let ground = try Ground()
    let connection = try ground.serve(try ground.tlsSettings().merging(["SERVER_LIMITS_TLS_HANDSHAKE": "1s"]) { $1 })
      .connect()
    connection.send("\u{16}\u{03}\u{01}")
    // A fatal user_canceled (RFC 8446 §6.1), and nothing else.
    #expect(try Array(connection.receiveAll().utf8) == [21, 3, 3, 0, 2, 2, 90])
  }
}
