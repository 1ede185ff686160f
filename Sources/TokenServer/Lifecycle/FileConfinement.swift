import CPlatform
import DeveloperToken
import EventLoop
import Glibc
import Logging
import ServerSettings
import TLS

/// The restriction of the process to the files that it needs after its start, by Landlock (landlock(7)).
///
/// A rule for a secret is about its folder and everything below it, because a renewed secret is a new file, unless the
/// folder is one in which others keep files too. Landlock restricts a thread and the threads that it creates, so a program
/// calls ``begin(_:keepsAbstractSockets:)`` while it has one thread.
struct FileConfinement: Sendable {
  /// What the process may still do with files, each a file or a folder with everything below.
  struct Grants: Sendable, Equatable {
    /// The places of files that a reload reads again, and that the system's libraries read, without lists of folders.
    var reading: [String] = []
    /// Folders that the process may list as well: its own in procfs, to count its descriptors, and OpenSSL's with CAs.
    var listing: [String] = []
    /// The place of the audit log, where a rotation creates a new file.
    var writing: [String] = []
    var binding: [String] = []
  }

  /// What the kernel has granted.
  enum Enforcement: Sendable, Equatable {
    /// The kernel denies all other access to files, by this version of Landlock.
    case enforced(version: Int)
    /// The kernel denies nothing, for this reason.
    case notEnforced(String)
  }

  var grants = Grants()
  let outcome: Enforcement

  /// Gives up what a server with these settings does not need.
  static func begin(for loaded: Settings.Loaded, keepsAbstractSockets: Bool) -> FileConfinement {
    let settings = loaded.settings
    guard settings.server.landlock else { return FileConfinement(outcome: .notEnforced("server.landlock is false")) }
    // The program reads what it wants, and inherits every restriction.
    guard !settings.runsProgram else {
      return FileConfinement(outcome: .notEnforced("musickit.signer.command runs a program"))
    }
    var socket: String?
    if case .unix(let path) = settings.server.address { socket = path }
    let grants = Grants(reading: loaded.paths, auditFile: settings.audit.file, unixSocket: socket)
    return begin(grants, keepsAbstractSockets: keepsAbstractSockets)
  }

  /// Gives up new privileges, all access to files except the grants, and unless `keepsAbstractSockets`, to abstract sockets,
  /// for this thread and all that it creates. A kernel may refuse: the restriction is a second line of defence.
  static func begin(_ grants: Grants, keepsAbstractSockets: Bool) -> FileConfinement {
    FileConfinement(grants: grants, outcome: outcome(of: grants, keepsAbstractSockets))
  }

  private static func outcome(of grants: Grants, _ keepsAbstractSockets: Bool) -> Enforcement {
    guard cplatform_no_new_privileges() == 0 else { return .notEnforced("\(SocketError(during: "prctl"))") }
    let version = Int(cplatform_landlock_version())
    guard version > 0 else { return .notEnforced("the kernel does not offer Landlock") }
    let scopes = version < 6 ? 0 : Scope.signal | (keepsAbstractSockets ? 0 : Scope.abstractUnixSocket)
    let raw = cplatform_landlock_ruleset(FileAccess.all(version), scopes)
    guard raw >= 0 else { return .notEnforced("\(SocketError(during: "landlock_create_ruleset"))") }
    let ruleset = Descriptor(owning: raw)
    for (places, access) in [
      (grants.reading, FileAccess.readFile), (grants.listing, FileAccess.readFile | FileAccess.readFolder),
      (grants.writing, FileAccess.append), (grants.binding, FileAccess.bind),
    ] {
      for place in places {
        if let error = allow(access, at: place, in: ruleset) { return .notEnforced("\(error)") }
      }
    }
    guard cplatform_landlock_enforce(ruleset.raw) == 0 else {
      return .notEnforced("\(SocketError(during: "landlock_restrict_self"))")
    }
    return .enforced(version: version)
  }

  /// Adds a rule. A place that does not exist needs none, and neither does a pipe, which Landlock never restricts.
  private static func allow(_ access: UInt64, at place: String, in ruleset: borrowing Descriptor) -> SocketError? {
    let raw = unsafe cplatform_open_place(place)
    guard raw >= 0 else { return nil }
    let descriptor = Descriptor(owning: raw)
    var status = stat()
    // A rule is about an inode. Procfs makes another one once nothing holds the entry, so this process holds its own.
    if place.utf8.starts(with: "/proc/".utf8) { _ = fcntl(descriptor.raw, F_DUPFD_CLOEXEC, 0) }
    let isFolder = unsafe fstat(descriptor.raw, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
    let result = cplatform_landlock_allow(ruleset.raw, descriptor.raw, isFolder ? access : access & FileAccess.ofFiles)
    return result == 0 || errno == EBADFD ? nil : SocketError(during: "landlock_add_rule")
  }

  /// The values of LANDLOCK_ACCESS_FS_… (linux/landlock.h).
  private enum FileAccess {
    static let writeFile: UInt64 = 1 << 1
    static let readFile: UInt64 = 1 << 2
    static let readFolder: UInt64 = 1 << 3
    static let removeFile: UInt64 = 1 << 5
    static let makeFile: UInt64 = 1 << 8
    static let makeSocket: UInt64 = 1 << 9
    static let append = writeFile | makeFile
    static let bind = makeSocket | removeFile
    /// Those that are possible with a file; the others are about folders.
    static let ofFiles = readFile | writeFile

    /// Everything that this version can deny: 13 accesses, then moves between folders (2), truncation (3), devices (5).
    static func all(_ version: Int) -> UInt64 {
      let count = version >= 5 ? 16 : version >= 3 ? 15 : version == 2 ? 14 : 13
      return (1 << count) - 1
    }
  }

  /// The values of LANDLOCK_SCOPE_… (linux/landlock.h): connections and signals to processes outside.
  private enum Scope {
    static let abstractUnixSocket: UInt64 = 1 << 0
    static let signal: UInt64 = 1 << 1
  }

  /// Throws an error for each file that the process could read at a start and cannot read now.
  func check(_ files: [(setting: String, path: String)]) throws(InvalidSettings) {
    guard case .enforced = outcome else { return }
    let errors = files.filter { Self.isDenied($0.path) }.map { file in
      SettingsError(
        file.setting, problem: "the file \(quotedPath(file.path)) is not one that the server may read since its start",
        remedy: "restart the server to use it, or keep such files in one folder without files of other programs")
    }
    if !errors.isEmpty { throw InvalidSettings(errors: errors, warnings: []) }
  }

  /// Throws an error if the settings need a program, and the process could run it only at a start.
  func check(_ settings: Settings) throws(InvalidSettings) {
    guard case .enforced = outcome, settings.runsProgram else { return }
    let error = SettingsError(
      "musickit.signer.command", problem: "is new, and since its start the server may run no program (server.landlock)",
      remedy: "restart the server to use it")
    throw InvalidSettings(errors: [error], warnings: [])
  }

  /// Whether Landlock denies reading. It does not restrict access(2), which tells what permissions allow.
  private static func isDenied(_ path: String) -> Bool {
    var status = stat()
    guard unsafe stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG, unsafe access(path, R_OK) == 0
    else { return false }
    let raw = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard raw < 0 else {
      close(raw)
      return false
    }
    return errno == EACCES
  }

  func report(to logger: Logger) {
    switch outcome {
    case .enforced(let version):
      logger.info(
        "File access restricted",
        metadata: [
          "landlock.version": "\(version)",
          "files.read": "\((grants.reading + grants.listing).joined(separator: " "))",
          "files.write": "\((grants.writing + grants.binding).joined(separator: " "))",
        ])
    case .notEnforced(let reason):
      logger.notice("File access not restricted", metadata: ["reason": "\(reason)"])
    }
  }
}

extension Settings {
  /// Whether a program signs tokens.
  fileprivate var runsProgram: Bool {
    guard case .remote(let signer, _) = musickit.keys.active, case .command = signer.place else { return false }
    return true
  }
}

extension FileConfinement.Grants {
  /// Creates the grants of a server, with the files that a reload reads again.
  init(reading files: [String], auditFile: String?, unixSocket: String?) {
    reading = Self.distinct(files.flatMap { Self.places(of: $0) } + Self.system)
    listing = Self.distinct(["/proc/self"] + TLSClientContext.systemStore)
    writing = Self.distinct(auditFile.map { Self.places(of: $0, isTooWide: Self.isOfSystem) } ?? [])
    binding = unixSocket.map { [Self.folder(of: $0)] } ?? []
  }

  /// What the system's libraries read after the start: the resolver's files and modules, the certification authorities
  /// and the files that they link to, OpenSSL's modules and random bytes, and for Dispatch the number of processors.
  private static var system: [String] {
    let folders = [
      "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/sys/devices/system/cpu", "/dev/urandom",
      "/usr/share/ca-certificates", "/usr/local/share/ca-certificates",
    ]
    let authorities = TLSClientContext.systemStore.flatMap { [$0] + places(of: $0) + targets(in: $0) }
    return folders + authorities + resolver(configuration: "/etc/resolv.conf")
  }

  /// Returns what the resolver reads (nsswitch.conf(5), resolv.conf(5)): its files, and the folder to which its
  /// configuration links, as systemd-resolved makes it. Without a link, all of its folder: a DHCP client or NetworkManager
  /// replaces the file, and without it no name is found. A container's engine mounts the file, and nothing replaces a mount.
  static func resolver(configuration: String) -> [String] {
    let files = ["hosts", "nsswitch.conf", "host.conf", "gai.conf", "services", "protocols", "ld.so.cache"]
    let named = files.map { "/etc/\($0)" } + [configuration]
    return named + (isReplaceable(configuration) ? [folder(of: configuration)] : places(of: configuration))
  }

  /// Whether another file may take the place of this one in its folder: it is no link and no mount.
  static func isReplaceable(_ file: String) -> Bool {
    var (status, parent) = (stat(), stat())
    guard unsafe lstat(file, &status) == 0, unsafe stat(folder(of: file), &parent) == 0 else { return true }
    return status.st_mode & S_IFMT != S_IFLNK && status.st_dev == parent.st_dev
  }

  /// Returns the folders to which the links in a folder lead, as in OpenSSL's folders of certificates.
  static func targets(in folder: String) -> [String] {
    guard let entries = unsafe opendir(folder) else { return [] }
    defer { unsafe closedir(entries) }
    var targets: [String] = []
    while let entry = unsafe readdir(entries), targets.count < mostTargets {
      guard unsafe entry.pointee.d_type == UInt8(DT_LNK) else { continue }
      let name = unsafe withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
        unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
      }
      guard let place = canonical("\(folder)/\(name)").map(Self.folder), !isTooWide(place) else { continue }
      if targets.last != place { targets.append(place) }
    }
    return targets
  }

  /// The most folders that links lead to: a few in practice, and each is a rule.
  private static let mostTargets = 1000

  /// Returns the folders of a file and of the file that it links to, which need not exist yet.
  private static func places(of file: String, isTooWide: (String) -> Bool = Self.isTooWide) -> [String] {
    let named = [file, canonical(file) ?? target(of: file)].map { file in
      let folder = folder(of: file)
      // The grant is the file alone. A new file in its place needs a restart.
      return isTooWide(folder) ? file : folder
    }
    return named + swappedFolders(above: file)
  }

  private static func isOfSystem(_ folder: String) -> Bool { ["/", "/dev"].contains(canonical(folder)) }

  /// Whether a folder has files of others too (hier(7)): a home folder, or one that the system's programs share.
  static func isTooWide(_ folder: String) -> Bool {
    guard let folder = canonical(folder) else { return isOfSystem(folder) }
    let shared = [
      "/", "/dev", "/etc", "/etc/ssl", "/home", "/media", "/mnt", "/opt", "/proc", "/root", "/run", "/srv", "/sys",
      "/tmp", "/usr", "/usr/local", "/usr/local/etc", "/var", "/var/lib", "/var/log", "/var/tmp",
    ]
    let home = unsafe getenv("HOME").map { unsafe String(cString: $0) }
    return shared.contains(folder) || folder == home.flatMap(canonical) || Self.folder(of: folder) == "/home"
  }

  /// Returns the folders in which a link leads to a neighbour, as `current` -> `releases/7`, and a release swaps it.
  private static func swappedFolders(above file: String) -> [String] {
    var folders: [String] = []
    for end in file.utf8.indices where file.utf8[end] == UInt8(ascii: "/") && end != file.utf8.startIndex {
      let link = String(file[..<end])
      let parent = folder(of: link)
      var status = stat()
      guard unsafe lstat(link, &status) == 0, status.st_mode & S_IFMT == S_IFLNK, !isTooWide(parent),
        let target = canonical(link), let place = canonical(parent), target.utf8.starts(with: "\(place)/".utf8)
      else { continue }
      folders.append(parent)
    }
    return folders
  }

  /// Returns the path to which a symbolic link leads, also through further links. Returns any other path unchanged.
  private static func target(of link: String) -> String {
    var path = link
    // As many as the kernel follows (path_resolution(7)).
    for _ in 0..<40 {
      guard let target = readLink(path) else { return path }
      path = target.hasPrefix("/") ? target : "\(folder(of: path))/\(target)"
    }
    return path
  }

  private static func readLink(_ path: String) -> String? {
    var target = [CChar](repeating: 0, count: Int(PATH_MAX))
    let count = unsafe readlink(path, &target, target.count)
    return count > 0 ? String(decoding: target.prefix(count).map { UInt8(truncatingIfNeeded: $0) }, as: UTF8.self) : nil
  }

  private static func folder(of path: String) -> String {
    guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return "." }
    return slash == path.utf8.startIndex ? "/" : String(path[..<slash])
  }

  private static func canonical(_ path: String) -> String? {
    guard let resolved = unsafe realpath(path, nil) else { return nil }
    defer { unsafe free(resolved) }
    return unsafe String(cString: resolved)
  }

  /// Returns each place once, by its canonical path, and without places below others.
  private static func distinct(_ places: [String]) -> [String] {
    var kept: [String] = []
    let sorted = places.map { canonical($0) ?? $0 }.sorted()
    for place in sorted where !kept.contains(where: { place == $0 || place.utf8.starts(with: "\($0)/".utf8) }) {
      kept.append(place)
    }
    return kept
  }
}
