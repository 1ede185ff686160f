import HTTPServer

/// The settings that could be read, and all errors in them.
struct SettingsDraft {
  let musickit: Settings.MusicKit?
  let token: Settings.Token?
  let server: Settings.Server?
  let admin: Settings.Admin?
  let catalog: Settings.Catalog?
  let access: Settings.Access?
  /// What could be read of each of its clients.
  let clients: [ClientCandidate]
  let audit: Settings.Audit?
  let log: Settings.Log?
  let configurationFile: String?
  let proxies: ProxyEnvironment
  let faults: [SettingsFault]
  let warnings: [String]

  /// Reads every setting of `input`.
  init(_ input: SettingsInput) {
    let layers = SettingsLayers(input, schema: Settings.schema)
    var reader = SettingsReader(layers)
    musickit = Settings.MusicKit(&reader)
    token = Settings.Token(&reader)
    server = Settings.Server(&reader, host: input.host)
    admin = Settings.Admin(&reader)
    catalog = Settings.Catalog(
      &reader, environment: input.environment, allowsPlainUpstream: input.allowsPlainUpstream)
    let surroundings = Settings.Access.ValidationContext(
      token: token, catalog: catalog, server: server, allowsAnonymous: input.allowsAnonymous)
    let read = Settings.Access.readClients(&reader, within: surroundings)
    clients = read.candidates
    access = Settings.Access(&reader, clients: read, within: surroundings)
    audit = Settings.Audit(&reader)
    log = Settings.Log(&reader, host: input.host)
    Self.checkPorts(server, admin, &reader)
    configurationFile = input.configurationFile
    proxies = ProxyEnvironment(input.environment)
    faults = reader.faults
    let everybody = "Everybody who reaches this server gets tokens for any origin (--unsafe-allow-anonymous)."
    warnings =
      layers.warnings
      + (input.allowsAnonymous ? [everybody] : Settings.Access.warningsAboutAnonymous(reader))
      + [Self.memoryWarning(server, catalog, input.host)].compactMap { $0 }
  }

  /// The settings, if nothing is wrong with them.
  func complete() throws(InvalidSettings) -> Settings.Loaded {
    guard faults.isEmpty, let musickit, let token, let server, let access, let audit, let log
    else {
      throw InvalidSettings(faults: faults, warnings: warnings)
    }
    let settings = Settings(
      musickit: musickit, token: token, server: server, admin: admin, catalog: catalog, access: access,
      audit: audit, log: log, configurationFile: configurationFile)
    return Settings.Loaded(settings: settings, files: files, warnings: warnings, proxies: proxies)
  }

  /// The files that the readable settings name.
  var files: NamedFiles {
    NamedFiles(musickit: musickit, tls: server?.tls, catalog: catalog, clients: clients, audit: audit)
  }

  /// What to say if the budget, the cache and the process itself together exceed what its control groups allow: the
  /// kernel would end the process before the budget refuses anything.
  private static func memoryWarning(
    _ server: Settings.Server?, _ catalog: Settings.Catalog?, _ host: HostFacts
  ) -> String? {
    guard let allowed = host.memory, let server else { return nil }
    let budget = server.limits.memory
    let cache = catalog?.cache.maxBytes ?? 0
    guard budget + cache + processMemory > allowed else { return nil }
    return
      "server.limits.memory (\(sizeText(budget))), catalog.cache.maxBytes (\(sizeText(cache))) and about "
      + "\(sizeText(processMemory)) for the process exceed the \(sizeText(allowed)) that its cgroup allows: the kernel "
      + "may end the process. Lower one of the two, or raise the cgroup's limit."
  }

  /// What the process takes without connections and cache: 17 MB resident, and a little for the allocator.
  private static let processMemory = 24 << 20

  private static func checkPorts(
    _ server: Settings.Server?, _ admin: Settings.Admin?, _ reader: inout SettingsReader
  ) {
    guard let admin, admin.port != 0, case .tcp(let host, admin.port)? = server?.address else { return }
    guard host == admin.host || host == .any || admin.host == .any else { return }
    let remedy = "write another port, or 0 for a free one"
    reader.fault(Settings.Admin.port.path, problem: "is the same as server.port", remedy: remedy)
  }
}
