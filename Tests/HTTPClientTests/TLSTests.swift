import Bytes
import HTTPMessages
import HTTPTypes
import TLS
import TestSupport
import Testing

@testable import HTTPClient

@Suite("Over TLS, with nginx")
struct TLSTests {
  @Test(
    "the client uses h2 if the server offers h2 and the configuration allows it, and else HTTP/1.1", .otherPrograms,
    arguments: [true, false])
  func negotiation(speaksHTTP2: Bool) throws {
    let nginx = try Nginx(speaksHTTP2: speaksHTTP2)
    let version = speaksHTTP2 ? "HTTP/2.0" : "HTTP/1.1"
    #expect(try nginx.client().get("/hello").text.hasPrefix("hello over \(version)"))
    #expect(try nginx.client { $0.http2 = .never }.get("/hello").text.hasPrefix("hello over HTTP/1.1"))
  }

  @Test(
    "a large response arrives complete over either protocol", .otherPrograms,
    arguments: [UpstreamClient.Configuration.HTTP2.alpn, .never])
  func large(http2: UpstreamClient.Configuration.HTTP2) throws {
    let client = try Nginx().client { $0.http2 = http2 }
    let calls = (0..<4).map { _ in client.send(.get, "/large") }
    for call in calls {
      let received = try call.received()
      #expect(received.error == nil)
      #expect(received.text == String(repeating: "0123456789abcdef", count: 65_536))
      #expect(received.response.contentLength == 1_048_576)
    }
  }

  @Test("a later connection resumes the session of an earlier connection", .otherPrograms)
  func resumption() throws {
    let client = try Nginx("keepalive_requests 1;").client()
    for number in 0..<4 {
      let text = try client.get("/hello").text
      #expect(text == "hello over HTTP/2.0 \(number == 0 ? "." : "r")")
      try client.wait { $0.counters.connectionsOpen == 0 }
    }
    #expect(client.client.counters.connectionsOpened == 4)
    #expect(client.client.counters.handshakesResumed == 3)
  }

  @Test("a server that ends connections after some requests leaves no request in doubt", .otherPrograms)
  func goAway() throws {
    let client = try Nginx("keepalive_requests 50;").client()
    var unprocessed = 0
    for _ in 0..<10 {
      let calls = (0..<100).map { _ in client.send(.get, "/hello") }
      for call in calls {
        guard let error = try call.failure() else { continue }
        // Requests that nginx did not process may be retried; the outcome of every other request is known.
        #expect(error.progress == .unprocessed, "\(error.description)")
        unprocessed += 1
      }
    }
    #expect(unprocessed < 1000)
    #expect(try client.get("/hello").status == 200)
  }

  @Test("the error for a certificate of another host names both hosts", .otherPrograms)
  func wrongHost() throws {
    let nginx = try Nginx(certificate: ServerCertificate(["DNS:other.example"]))
    let error = try #require(try nginx.client().send().failure())
    #expect(error.cause == .tlsCertificateError)
    #expect(error.progress == .unprocessed)
    #expect(error.description.contains("localhost"))
    #expect(error.description.contains("other.example"))
  }

  @Test("a certificate of an untrusted authority and an expired certificate are refused", .otherPrograms)
  func untrusted() throws {
    let nginx = try Nginx()
    let client = try TestClient(tls: ServerCertificate().trusting(), port: nginx.port, of: nginx)
    let error = try #require(try client.send().failure())
    #expect(error.cause == .tlsCertificateError)
    #expect(error.description.contains("catalog.caFile"))
    let old = try Nginx(certificate: ServerCertificate(notAfter: -60)).client()
    #expect(try old.send().failure()?.description.contains("expired on") == true)
  }

  @Test("the error for a server without TLS says so, and a silent server times out")
  func noTLS() throws {
    let peer = try ScriptedPeer()
    let client = try TestClient(tls: ServerCertificate().trusting(), port: peer.port)
    let call = client.send()
    try peer.accept().send("HTTP/1.1 400 Bad Request\r\n\r\n")
    let error = try #require(try call.failure())
    #expect(error.cause == .tlsProtocolError)
    #expect(error.description.contains("does not speak TLS on this port"))
    let silent = client.send(limits: .init(connect: .milliseconds(1), firstByte: .seconds(60), whole: .seconds(60)))
    #expect(try silent.failure()?.progress == .unprocessed)
  }

  @Test("TLS runs through a proxy's tunnel to the upstream's certificate", .otherPrograms)
  func tunnel() throws {
    let nginx = try Nginx()
    let proxy = try ScriptedPeer()
    let configured = try UpstreamProxy("http://127.0.0.1:\(proxy.port)")
    let client = try nginx.client { $0.proxy = configured }
    let call = client.send(.get, "/hello")
    let connection = try proxy.accept()
    #expect(try connection.request().head.hasPrefix("CONNECT localhost:\(nginx.port) "))
    try connection.tunnel(to: nginx.port)
    #expect(try call.received().text.hasPrefix("hello over HTTP/2.0"))
  }

  @Test("a request over TLS without trusted authorities fails")
  func noContext() throws {
    let peer = try ScriptedPeer()
    let client = try TestClient(.init(.https, host: "127.0.0.1", port: peer.port))
    #expect(try client.send().failure()?.cause == .proxyInternalError)
  }
}
