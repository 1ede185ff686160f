import Access
import Bytes
import Dispatch
import EventLoop
import Locks
import Redis
import ServerSettings
import TokenServer

/// The check of `doctor` on the store: it connects as the server does, and runs its commands on a key of its own.
struct StoreDiagnosis {
  /// The most time for a reply: more than a short `shared.timeout`, so that a slow store is told from a dead one.
  private var patience: Duration { max(.seconds(1), settings.timeout) }
  private let settings: Settings.Shared
  private let configuration: RedisClient.Configuration

  static func run(_ draft: SettingsDraft, _ files: LoadedFiles, _ diagnosis: Diagnosis) {
    let isInvalid = draft.errors.contains { $0.path.hasPrefix("shared.") }
    guard draft.shared != nil || isInvalid else { return }
    guard let settings = draft.shared, let store = files.store, !isInvalid else {
      return diagnosis.skip(.sharedStore, dependsOn: .settings)
    }
    do {
      let diagnosed = StoreDiagnosis(settings: settings, configuration: StorePermissions.configuration(settings, store))
      diagnosed.judge(try diagnosed.examine(), diagnosis)
    } catch {
      diagnosis.fail(.sharedStore, "\(error)")
    }
  }

  private struct Outcome: Sendable {
    var facts: RedisFacts?
    var obstacle: String?
    var trial: Result<RESPValue, RedisError>?
    var delay: Duration?
  }

  private func examine() throws -> Outcome {
    let loop = try IOLoop.start(label: "doctor")
    defer { loop.stopAndWait() }
    let outcome = Locked(Outcome())
    let isDone = DispatchSemaphore(value: 0)
    loop.post { [self] in
      let client = RedisClient(configuration, loop: loop)
      @Sendable func finish() {
        client.onChange = { _ in }
        client.close()
        isDone.signal()
      }
      client.onChange = { problem in
        if let problem {
          outcome.withLock { $0.obstacle = problem }
          return finish()
        }
        outcome.withLock { $0.facts = client.facts }
        StorePermissions.tryCommands(
          on: client, prefix: settings.keyPrefix, until: Deadline.now.advanced(by: patience)
        ) { result in
          outcome.withLock { $0.trial = result }
          let sentAt = Deadline.now
          client.send([Array("PING".utf8)], until: sentAt.advanced(by: patience)) { result in
            if case .success = result { outcome.withLock { $0.delay = Deadline.now.duration(since: sentAt) } }
            finish()
          }
        }
      }
      client.start()
    }
    // The deadlines of the client bound this wait.
    isDone.wait()
    return outcome.withLock { $0 }
  }

  private func judge(_ outcome: Outcome, _ diagnosis: Diagnosis) {
    func fail(_ problem: String, _ fix: String) {
      diagnosis.fail(
        .sharedStore, "\(settings.address): \(problem)", fix: "\(fix) Until then each replica keeps limits of its own.")
    }
    switch outcome.trial {
    case nil:
      let obstacle = outcome.obstacle ?? "It closed the connection."
      fail(obstacle, fix(for: obstacle))
    case .failure(.refused(let text)): judge([("eval", text)], fail)
    case .failure:
      let problem = "It did not respond within \(Int(patience / .milliseconds(1))) ms."
      fail(problem, "Find out what keeps the store busy (SLOWLOG GET).")
    case .success(let reply):
      let parts = reply.elements?.compactMap(\.bytes) ?? []
      let refused = stride(from: 0, to: parts.count - 1, by: 2).map {
        (command: String(decoding: parts[$0].filter { (0x61...0x7A).contains($0) }, as: UTF8.self), text: parts[$0 + 1])
      }
      if !refused.isEmpty { return judge(refused, fail) }
      let delay = outcome.delay ?? patience
      let limit = Int(settings.timeout / .milliseconds(1))
      let times = "A reply takes \(Self.text(delay)), and shared.timeout is \(limit) ms."
      guard delay < settings.timeout else {
        return fail(times, "Raise shared.timeout, or find out what delays the store.")
      }
      let name = (outcome.facts?.name ?? "The store") + (outcome.facts?.role.map { " (\($0))" } ?? "")
      diagnosis.pass(.sharedStore, "\(name) at \(settings.address) takes every command of the server. \(times)")
    }
  }

  private func fix(for obstacle: String) -> String {
    if obstacle.contains("NOPERM") { return permissions }
    if obstacle.contains("Write ") { return "docs/scaling.md has an example." }
    if obstacle.contains("password") { return "Compare both with the users of the store (ACL LIST)." }
    if case .tcp = settings.address {
      return "Check shared.url, and that the store \(settings.address.isSecure ? "speaks TLS" : "runs") there."
    }
    return "Check shared.url, and that the store runs."
  }

  private var permissions: String { "Run: ACL SETUSER \(user) \(StorePermissions.rules(prefix: settings.keyPrefix))." }
  private var user: String { settings.user ?? "default" }

  private typealias Refusal = (command: String, text: [UInt8])

  private func judge(_ refused: [Refusal], _ fail: (String, String) -> Void) {
    let words = Printable.quote(ByteString(refused[0].text), limit: 100)
    func has(_ code: String) -> Bool { refused[0].text.isError(code) }
    switch true {
    case has("READONLY"):
      fail(
        "It is a read-only replica.",
        "Let shared.url name what follows the primary, because the server asks no Sentinel for it.")
    case has("MOVED"), has("CLUSTERDOWN"), has("CROSSSLOT"):
      fail(
        "It is a node of a cluster that does not have the server's keys: \(words).",
        "The server does not follow MOVED: write the address of a store without Cluster, or with one shard.")
    case has("OOM"): fail("It is full: \(words).", "Raise its maxmemory, or set maxmemory-policy allkeys-lfu.")
    case has("NOPERM"): fail("Its user \(user) lacks permissions: \(words).", permissions)
    case refused.contains(where: { String(decoding: $0.text, as: UTF8.self).contains("executing the script") }):
      fail("Its user \(user) may not run: \(commands(in: refused)). \(words).", permissions)
    default: fail("It refuses \(commands(in: refused)): \(words).", "Read the log of the store.")
    }
  }

  private func commands(in refused: [Refusal]) -> String {
    var names: [String] = []
    for (command, _) in refused where !names.contains(command) { names.append(command) }
    return names.joined(separator: ", ")
  }

  private static func text(_ time: Duration) -> String {
    "\(Int(time / .microseconds(10)) / 100).\(String(Int(time / .microseconds(10)) % 100 + 100).dropFirst()) ms"
  }
}

/// The check of `doctor` on identity providers: it fetches the keys of each, as a start does.
struct ProviderDiagnosis {
  private static let mostShown = 8
  let clients: [Client]
  let files: KeySetFiles
  let proxies: ProxyEnvironment

  /// Fetches all key sets at once, for at most the time of one. There is no check if the server fetches no keys.
  func run(_ diagnosis: Diagnosis) {
    do {
      let sources = AccessPolicy(clients: clients, anonymous: nil).keySources
      let named = try NamedKeySets(sources, files: files, proxies: proxies)
      guard named.areFetched else { return }
      var (lines, failures): ([String], [String]) = ([], [])
      for (source, result) in try named.fetch() {
        switch result {
        case .success(let fetched):
          let place = fetched.discovered.map { " at \($0.url)" } ?? ""
          let count = fetched.keys.count
          lines.append("\(name(source)): \(count) usable \(count == 1 ? "key" : "keys")\(place).")
        case .failure(let failure): failures.append("\(name(source)): \(failure)")
        }
      }
      guard failures.isEmpty else {
        return diagnosis.fail(
          .identityProviders, failures.sorted(),
          fix: "Until the server has the keys, JWTs of that provider get 503. Check issuer, jwksURL and caFile.")
      }
      let rest = lines.count - Self.mostShown
      let more = rest > 0 ? ["The keys of \(rest) more arrive as well."] : []
      diagnosis.pass(.identityProviders, lines.sorted().prefix(Self.mostShown) + more)
    } catch {
      diagnosis.fail(.identityProviders, "\(error)")
    }
  }

  private func name(_ source: KeySetSource) -> String {
    let ids = clients.compactMap { client in
      if case .jwt(_, source) = client.credential { client.id } else { nil }
    }
    let more = ids.count > 3 ? " and \(ids.count - 3) more" : ""
    return "Client \(ids.prefix(3).joined(separator: ", "))\(more)"
  }
}

/// The check of `doctor` on the collector of spans: it sends a request without any span.
enum CollectorDiagnosis {
  /// The most time, whatever the settings allow.
  private static let patience = Duration.seconds(10)

  static func run(_ draft: SettingsDraft, _ files: LoadedFiles, _ diagnosis: Diagnosis) {
    guard let settings = draft.spanExport else { return }
    guard let authorities = files.collectorAuthorities else {
      return diagnosis.skip(.spanCollector, dependsOn: .settings)
    }
    do {
      let reason = try SpanExporter.refusal(
        of: settings, authorities: authorities, proxy: draft.proxies.proxy(for: settings.endpoint.origin),
        within: min(settings.timeout, Self.patience))
      guard let reason else { return diagnosis.pass(.spanCollector, "\(settings.endpoint) takes spans.") }
      diagnosis.fail(
        .spanCollector, "\(settings.endpoint) does not take spans. \(reason)",
        fix: "The server drops them and serves all requests. Check otel.exporter.otlp, and that the collector runs.")
    } catch {
      diagnosis.fail(.spanCollector, "\(error)")
    }
  }
}
