import Access

/// The key sets that one generation of settings names. A request is judged by those of the generation that it began with,
/// while those of providers renew themselves behind it.
struct KeySetTable: Sendable {
  /// One of them.
  enum Entry: Sendable {
    case read(JSONWebKeySet)
    case remote(RemoteKeySet)

    var remote: RemoteKeySet? {
      if case .remote(let remote) = self { remote } else { nil }
    }
  }

  let entries: [KeySetSource: Entry]

  init(_ entries: [KeySetSource: Entry] = [:]) {
    self.entries = entries
  }

  /// The keys that there are of a source; nil if its provider has not been reached yet. Never waits.
  func present(_ source: KeySetSource) -> JSONWebKeySet? {
    switch entries[source] {
    case .read(let keys): keys
    case .remote(let remote): remote.present
    case nil: nil
    }
  }

  /// The keys of a source after a fetch, if its schedule allows one or one is under way; else those that there are, at
  /// once. Waits for ten seconds at most, and no longer when the task is cancelled.
  func fresh(_ source: KeySetSource) async -> JSONWebKeySet? {
    switch entries[source] {
    case .read(let keys): keys
    case .remote(let remote): await remote.fresh()
    case nil: nil
    }
  }

  /// Waits for the keys of several sources, all at once: ten seconds in all, however many providers hang.
  func refresh(_ sources: [KeySetSource]) async {
    await withTaskGroup { group in
      for source in sources { group.addTask { _ = await fresh(source) } }
    }
  }

  /// Those that are fetched.
  var remotes: [RemoteKeySet] { entries.values.compactMap(\.remote) }
}
