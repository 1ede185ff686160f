import Bytes
import DeveloperToken
import EventLoop
import Glibc
import HTTP1
import HTTPCache
import HTTPClient
import HTTPMessages
import HTTPTypes
import JSON
import ServerSettings
import TLS
import TokenServer
import UpstreamAdmission

/// The checks that need Apple Music. The stage at which a request fails has the defect; those before it work.
struct UpstreamDiagnosis {
  /// A new developer token, and the ID of its key.
  typealias Token = (key: KeyID, text: String)
  typealias Tokens = (team: TeamID, active: Token, next: Token?)

  /// The time for all requests together.
  private static let patience = Duration.seconds(30)
  /// The most time for a connection, and the most for a response, whatever the settings allow.
  private static let longestStage = Duration.seconds(10)
  let settings: Settings.Catalog
  /// Without tokens, a request still shows the way to Apple Music.
  let tokens: Tokens?
  let userToken: String?
  let diagnosis: Diagnosis
  let end = Deadline.now.advanced(by: UpstreamDiagnosis.patience)

  func run(_ authorities: TLSClientContext) {
    do {
      var configuration = try UpstreamClient.Configuration(settings, authorities)
      configuration.limits.attempt = min(settings.timeouts.connect, Self.longestStage)
      try UpstreamClient.withOwnLoop(configuration, run)
    } catch {
      diagnosis.fail(.dns, "\(error)")
    }
  }

  private func run(_ client: UpstreamClient) {
    let result = send("/v1/test", Self.fields(tokens?.active), client)
    checkStages(result)
    guard let tokens else {
      diagnosis.skip(.appleMusic, dependsOn: .token)
      if userToken != nil { diagnosis.skip(.userToken, dependsOn: .token) }
      return
    }
    guard let reply = judge(.appleMusic, tokens.active, tokens.team, result) else { return }
    // A 401 is about one key only, and the other one may be what the server continues with.
    if let next = tokens.next, reply.isSuccess || reply.status == 401 {
      _ = judge(.nextKey, next, tokens.team, send("/v1/test", Self.fields(next), client))
    }
    guard reply.isSuccess, let userToken else { return }
    var fields = Self.fields(tokens.active)
    fields.append(Self.secret(.literal("Music-User-Token"), userToken))
    judgeUser(send("/v1/me/storefront", fields, client))
  }

  private typealias Outcome = Result<UpstreamReply, UpstreamError>

  private static func fields(_ token: Token?) -> FieldLines {
    var fields: FieldLines = [.accept: "application/json", .userAgent: "musickit-token-server/\(Release.version)"]
    if let token { fields.append(secret(.authorization, "Bearer \(token.text)")) }
    return fields
  }

  private static func secret(_ name: HTTPField.Name, _ value: String) -> HTTPField {
    var field = HTTPField(name: name, value: value)
    // RFC 7541 §7.1.3: a compression table must not help an attacker to guess it.
    field.indexingStrategy = .disallow
    return field
  }

  private func send(_ target: ByteString, _ fields: FieldLines, _ client: UpstreamClient) -> Outcome {
    let left = max(end.duration(since: .now), .milliseconds(1))
    let limits = UpstreamTimeouts(
      // The attempt ends before, so that its error has the stage.
      connect: min(settings.timeouts.connect, Self.longestStage) + .seconds(1),
      firstByte: min(settings.timeouts.firstByte, Self.longestStage), whole: min(settings.timeouts.whole, left))
    // 16 KiB is more than any error of Apple has.
    return client.reply(to: UpstreamRequest(.get, target, fields: fields), limits: limits, contentLimit: 16_384)
  }

  private func checkStages(_ result: Outcome) {
    for stage in UpstreamError.Stage.allCases {
      let check = check(of: stage)
      if case .failure(let error) = result, error.stage == stage {
        return diagnosis.fail(check.subject, error.description, fix: fix(stage, of: error))
      }
      if let reason = check.inapplicability {
        diagnosis.skip(check.subject, because: reason)
      } else {
        diagnosis.pass(check.subject, check.success)
      }
    }
    switch result {
    case .success(let reply): checkClock(reply)
    case .failure: diagnosis.skip(.clock, because: "There is no response.")
    }
  }

  private var proxy: UpstreamProxy? { settings.proxy.flatMap { try? UpstreamProxy($0) } }
  private var host: String { proxy?.host ?? settings.upstream.hostToResolve }
  private var port: UInt16 { proxy?.port ?? settings.upstream.port ?? (settings.upstream.isSecure ? 443 : 80) }

  private func check(
    of stage: UpstreamError.Stage
  ) -> (subject: Diagnosis.Subject, inapplicability: String?, success: String) {
    let upstream = settings.upstream
    return switch stage {
    case .name: (.dns, nil, IPAddress(host) == nil ? "\(host) resolves." : "\(host) is an address.")
    case .transport: (.tcp, nil, "\(host) accepts connections on port \(port).")
    case .tunnel:
      (.proxy, proxy == nil ? "The server uses no proxy." : nil, "\(host) opens a tunnel to \(upstream.host).")
    case .security:
      (
        .tls, upstream.isSecure ? nil : "catalog.upstream is an http:// address.",
        "The certificate of \(upstream.host) is valid."
      )
    }
  }

  private func fix(_ stage: UpstreamError.Stage, of error: UpstreamError) -> String {
    let place = proxy == nil ? "catalog.upstream" : "the URL of the proxy"
    switch stage {
    case .name: return "Check the name in \(place), and the resolver of this machine (/etc/resolv.conf)."
    case .transport where proxy == nil:
      return "Allow connections to port \(port) of \(host) in the firewall, or set catalog.proxy."
    case .transport: return "Check host and port in the URL of the proxy (catalog.proxy or HTTPS_PROXY)."
    case .tunnel where error.proxyStatus == 407:
      return "Write user and password into the URL of the proxy (catalog.proxy or HTTPS_PROXY): http://user:password@…"
    case .tunnel: return "Let the proxy open tunnels to \(settings.upstream.host), or name the host in NO_PROXY."
    case .security where error.cause == .connectionTimeout:
      return "TCP works, and TLS gets no response: a firewall or proxy on the way holds it back, or the port is not "
        + "one of TLS. Allow TLS to \(settings.upstream.host) there, or set catalog.proxy."
    case .security:
      return "If the certificate is not Apple's, a proxy or firewall on the way decrypts TLS: exempt the host there, "
        + "or name its CA in catalog.caFile."
    }
  }

  private func checkClock(_ reply: UpstreamReply) {
    let (start, arrival) = (reply.times.lowerBound, reply.times.upperBound)
    guard let date = reply.date.flatMap({ FieldDate.seconds($0, now: arrival) }) else {
      return diagnosis.skip(.clock, because: "The response has no Date.")
    }
    // Apple wrote the date at some moment between request and response.
    let moment = min(max(date, start), arrival)
    let fix = "Set this machine's clock, or let NTP set it."
    switch TokenRejection(upstreamDate: date, now: moment) {
    case .clockAhead(let seconds):
      diagnosis.fail(
        .clock, "This machine's clock is \(seconds) s ahead of Apple's, so tokens may seem to come from the future.",
        fix: fix)
    case .clockBehind(let seconds):
      diagnosis.fail(
        .clock, "This machine's clock is \(seconds) s behind Apple's, so tokens may seem to have expired.", fix: fix)
    case .unknown:
      diagnosis.pass(.clock, "This machine's clock and Apple's differ by less than \(TokenRejection.leastSkew) s.")
    }
  }

  /// Judges the response to `/v1/test` with a token. Returns nil without a response.
  private func judge(
    _ subject: Diagnosis.Subject, _ token: Token, _ team: TeamID, _ result: Outcome
  ) -> UpstreamReply? {
    guard let reply = reply(subject, result) else { return nil }
    switch reply.status {
    case 200..<300: diagnosis.pass(subject, "Apple Music accepts a token of key \(token.key) and team \(team).")
    case 401 where diagnosis.hasFailed(.clock):
      diagnosis.skip(subject, because: "Apple Music refuses the token (401), which the wrong clock explains.")
    case 401:
      diagnosis.fail(
        subject, "Apple Music refuses a new token (401), although its form, its signature and the clock are right.",
        fix: "Compare key ID \(token.key) and team ID \(team) with the developer account: the key is of another ID or "
          + "team, is not enabled for MusicKit, or is revoked.")
    default: judgeTrouble(subject, reply.status)
    }
    return reply
  }

  /// Judges a response that says nothing about the tokens.
  private func judgeTrouble(_ subject: Diagnosis.Subject, _ status: Int) {
    if status == 429 {
      diagnosis.fail(
        subject, "Apple Music limits the team's requests (429), which says nothing about the tokens.",
        fix: "Send fewer requests, and run doctor again later: the quota is the team's, and a new token does not help.")
    } else {
      diagnosis.fail(
        subject, "\(settings.upstream.host) responds with status \(status), which says nothing about the tokens.",
        fix: "See https://www.apple.com/support/systemstatus/, and run doctor again later.")
    }
  }

  private func reply(_ subject: Diagnosis.Subject, _ result: Outcome) -> UpstreamReply? {
    do { return try result.get() } catch {
      // The check of the stage has the error.
      guard subject != .appleMusic || error.stage == nil else { return nil }
      diagnosis.fail(
        subject, error.description,
        fix: "Key and tokens are not the cause. See https://www.apple.com/support/systemstatus/, and run doctor again.")
      return nil
    }
  }

  private func judgeUser(_ result: Outcome) {
    guard let reply = reply(.userToken, result) else { return }
    switch reply.status {
    case 200..<300: diagnosis.pass(.userToken, "Apple Music accepts the music user token.")
    case 403 where Self.errorCode(reply.content) == "40015":
      diagnosis.fail(
        .userToken, "The user has no active subscription to Apple Music (403, code 40015).",
        fix: "Developer token and user token are right; the user needs a subscription.")
    case 401, 403:
      diagnosis.fail(
        .userToken, "Apple Music refuses the music user token (\(reply.status)), and accepts the developer token.",
        fix: "It has expired, or the user has revoked it. Let the app call unauthorize() and then authorize(), because "
          + "MusicKit JS keeps a refused token. Other apps request a new one from MusicKit.")
    default: judgeTrouble(.userToken, reply.status)
    }
  }

  private static func errorCode(_ content: [UInt8]) -> String? {
    JSONReader.read(content, values: 1000)?["errors"]?.elements.first?["code"]?.string?.text
  }
}
