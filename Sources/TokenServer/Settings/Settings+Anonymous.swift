import Access

/// `access.anonymous`: what callers without credentials may have.
///
/// Nothing opens by accident. The policy exists only where an object was written for it, in the file, as
/// `ACCESS_ANONYMOUS` or by a flag. A variable of a single setting changes that policy and never creates one: the name
/// `ACCESS_ANONYMOUS_CATALOG` alone, whatever its value, must not let a caller in.
extension Settings.Access {
  static let anonymousPath = "access.anonymous"

  /// What an operator should know about the policy, each a sentence.
  static func warningsAboutAnonymous(_ reader: SettingsReader) -> [String] {
    guard reader.isEmptyObject(anonymousPath) == true, !reader.isSet(token.path) else { return [] }
    return [
      "access.anonymous is an empty object: every caller who reaches this server gets developer tokens without a "
        + "credential. Write access.anonymous: { token: true } if this is what you want."
    ]
  }

  /// The policy; nil if it is absent or faulty.
  static func readAnonymous(
    _ reader: inout SettingsReader, noting allRates: inout [String: Rates], within surroundings: ValidationContext
  ) -> Client? {
    guard let isEmpty = reader.isEmptyObject(anonymousPath) else {
      refuseSingleSettings(&reader)
      return nil
    }
    let origins = readNonEmpty(origins, &reader)
    let ttl = reader.read(ttl)
    if let ttl, let token = surroundings.token, ttl > token.maxTTL {
      reader.fault(Self.ttl.path, problem: "is more than token.maxTTL", remedy: "write as much at most")
    }
    let storefronts = readNonEmpty(storefronts, &reader)
    // The object that says nothing at all stands for tokens; one that says anything has to say that, too.
    let token = reader.isSet(token.path) ? reader.read(token) : isEmpty
    let catalog = reader.read(catalog)
    let me = reader.read(me)
    let share = reader.read(share)
    let rates = reader.read(rateLimit).flatMap { value in
      reader.readObject(value, at: rateLimit.path) { Rates(&$0) }
    }
    guard let token, let catalog, let me else { return nil }
    refuseWorthless(&reader, token: token, catalog: catalog, me: me, within: surroundings)
    allRates[Client.anonymousID] = rates
    return Client(
      id: Client.anonymousID, credential: .anonymous, origins: .only(origins ?? []), token: token, catalog: catalog,
      me: me, ttl: ttl.map { Int($0.components.seconds) }, storefronts: storefronts.map(Set.init), rate: rates?.each,
      totalRate: rates?.total, share: share)
  }

  /// The list, if it was written. An empty one is a fault: it would lift a restriction instead of making one.
  private static func readNonEmpty<Element>(
    _ setting: Setting<[Element]>, _ reader: inout SettingsReader
  ) -> [Element]? {
    let list = reader.read(setting)
    if list?.isEmpty ?? false {
      reader.fault(setting.path, problem: "is empty", remedy: "name some, or leave it out for all")
    }
    return list
  }

  private static func refuseSingleSettings(_ reader: inout SettingsReader) {
    for setting in known where setting.path.hasPrefix(anonymousPath + ".") && reader.isSet(setting.path) {
      reader.fault(
        setting.path, problem: "changes the anonymous policy, but there is no such policy",
        remedy: "write access.anonymous in the file, or a whole object such as ACCESS_ANONYMOUS='{ catalog: true }'")
    }
  }

  /// A policy that grants nothing is a mistake: the operator wanted something else.
  private static func refuseWorthless(
    _ reader: inout SettingsReader, token: Bool, catalog: Bool, me: Bool, within surroundings: ValidationContext
  ) {
    let settings = surroundings.catalog
    guard !token, !(catalog && settings != nil), !(me && settings?.me == true) else { return }
    let cause =
      !catalog && !me ? "" : settings == nil ? ", because catalog.enabled is false" : ", because catalog.me is false"
    reader.fault(
      anonymousPath, problem: "grants nothing\(cause)",
      remedy: "write token: true, catalog: true or me: true, or remove it")
  }
}
