import Glibc
import TestSupport
import Testing

@Suite("make install")
struct InstallTests {
  private static let name = "musickit-token-server"

  /// The installed files, relative to `PREFIX`.
  private static let files = [
    "bin/\(name)", "lib/systemd/system/\(name).service", "lib/systemd/system/\(name).socket",
    "share/bash-completion/completions/\(name)",
    "share/fish/vendor_completions.d/\(name).fish", "share/man/man1/\(name).1", "share/zsh/site-functions/_\(name)",
  ]

  /// A folder with the built program installed in `/opt/music`.
  private struct Installation {
    let directory: TemporaryDirectory
    var prefix: String { directory.path(of: "opt/music") }

    init() throws {
      directory = try TemporaryDirectory()
      try make("install")
    }

    func make(_ target: String) throws {
      let places = ["DESTDIR=\(directory.path)", "PREFIX=/opt/music", "BINARY=\(Program.path)"]
      let result = try run("make", ["-C", Repository.path, target] + places)
      guard result.status == 0 else { throw TestFailure("make \(target): \(result.stdout)\(result.stderr)") }
    }

    /// The paths of all files, sorted.
    func files() throws -> [String] {
      let result = try run("find", [directory.path, "!", "-type", "d", "-printf", "%P\n"])
      guard result.status == 0 else { throw TestFailure(result.stderr) }
      return result.stdout.split(separator: "\n").map(String.init).sorted()
    }

    func path(_ file: String) -> String { "\(prefix)/\(file)" }
  }

  @Test("installs a program that runs, and make uninstall removes every file")
  func roundTrip() throws {
    let installation = try Installation()
    defer { withExtendedLifetime(installation) {} }
    #expect(try installation.files() == Self.files.map { "opt/music/\($0)" })
    let version = try run(installation.path(Self.files[0]), ["--version"], environment: [:])
    #expect(version.status == 0)
    #expect(version.stdout.contains("(development build)"))
    for file in Self.files {
      let mode = try run("stat", ["-c", "%a", installation.path(file)]).stdout
      #expect(mode == (file.hasPrefix("bin/") ? "755\n" : "644\n"), "\(file)")
    }
    try installation.make("uninstall")
    #expect(try installation.files().isEmpty)
  }

  @Test("says what comes next, unless it installs for a package")
  func next() throws {
    let words = ["-C", Repository.path, "--no-print-directory", "--dry-run", "install", "BINARY=\(Program.path)"]
    #expect(try run("make", words).stdout.hasSuffix("'musickit-token-server doctor --config config.json5'\n"))
    #expect(try !run("make", words + ["DESTDIR=/stage"]).stdout.contains("doctor"))
  }

  @Test("installs a valid manual page with every command and option")
  func manual() throws {
    let installation = try Installation()
    defer { withExtendedLifetime(installation) {} }
    let path = installation.path(Self.files[5])
    let lint = try run("mandoc", ["-T", "lint", "-W", "warning", path])
    #expect(lint.status == 0, "\(lint.stdout)\(lint.stderr)")
    let text = try run("mandoc", ["-T", "ascii", "-O", "width=1000", path]).stdout.replacing(/.\u{8}/, with: "")
    let help = try Program.run(["--help"]).stdout
    let list = try #require(help.split(separator: "SUBCOMMANDS:\n", maxSplits: 1).last)
    let commands = list.matches(of: /(?m)^  ([a-z-]+)(?: \(default\))? {2,}\S/).map { String($0.output.1) }
    #expect(commands.count >= 8)
    for command in commands {
      #expect(text.contains("\n   \(command)\n"), "\(command)")
      let options = try Program.run([command, "--help"]).stdout.matches(of: /(?m)^  (-[^ ]+(?: <[^>]*>)?)/)
      #expect(!options.isEmpty)
      for option in options { #expect(text.contains("\n       \(option.output.1)"), "\(command) \(option.output.1)") }
    }
  }

  @Test("installs completions that bash, zsh and fish load")
  func completions() throws {
    let installation = try Installation()
    defer { withExtendedLifetime(installation) {} }
    let shells = [
      (
        "bash", installation.path(Self.files[3]), ". \"$0\" && complete -p \(Self.name)",
        "complete -o filenames -F _\(Self.name) \(Self.name)\n"
      ),
      (
        "fish", installation.path(Self.files[4]),
        "source $argv[1]; complete --do-complete '\(Self.name) check-'", "check-config\t"
      ),
      (
        "zsh", installation.path(Self.files[6]),
        "fpath=(${0:h} $fpath); autoload -U compinit; compinit -u -D; print $_comps[\(Self.name)]", "_\(Self.name)\n"
      ),
    ]
    for (shell, file, script, expected) in shells {
      let syntax = try run(shell, ["-n", file])
      #expect(syntax.status == 0 && syntax.stderr.isEmpty, "\(shell): \(syntax.stderr)")
      let loaded = try run(shell, ["-c", script, file])
      #expect(loaded.status == 0, "\(shell): \(loaded.stderr)")
      #expect(loaded.stdout.hasPrefix(expected), "\(shell): \(loaded.stdout)\(loaded.stderr)")
    }
  }

  @Test("installs a systemd unit with the path of the installed program")
  func unit() throws {
    let installation = try Installation()
    defer { withExtendedLifetime(installation) {} }
    let unit = try TextFile.read(installation.path(Self.files[1]))
    let starts = unit.split(separator: "\n").filter { $0.hasPrefix("ExecStart") }
    #expect(starts.count == 1)
    for line in starts { #expect(line.contains("=/opt/music/bin/\(Self.name) "), "\(line)") }
    // A variable would beat config.json5, and systemd makes the copy of a credential only at the start: no rotation of the
    // key would be possible.
    #expect(!unit.contains(/(?m)^(Environment|LoadCredential)=/))
    // An address that comes later is tried again for ever, and a faulty configuration is not.
    for line in ["StartLimitIntervalSec=0", "RestartPreventExitStatus=78", "LogRateLimitIntervalSec=0"] {
      #expect(unit.contains("\n\(line)\n"), "\(line)")
    }
  }

  @Test("installs units that systemd accepts")
  func verifiedUnits() throws {
    let systemd = "/usr/bin/systemd-analyze"
    guard unsafe access(systemd, X_OK) == 0 else { return }
    let installation = try Installation()
    defer { withExtendedLifetime(installation) {} }
    // The program is not at its place in this system.
    let units = try [1, 2].map { index in
      let text = try TextFile.read(installation.path(Self.files[index]))
      return try installation.directory.write(
        text.replacing("/opt/music/bin/\(Self.name)", with: Program.path),
        to: String(Self.files[index].split(separator: "/").last ?? ""))
    }
    let verdict = try run(systemd, ["verify"] + units)
    #expect(verdict.status == 0)
    #expect(!verdict.stderr.contains(Self.name), "\(verdict.stderr)")
  }

  @Test("asks for a build if the program is missing")
  func unbuilt() throws {
    let directory = try TemporaryDirectory()
    let places = ["DESTDIR=\(directory.path)", "BINARY=\(directory.path(of: "missing"))"]
    let result = try run("make", ["-C", Repository.path, "install"] + places)
    #expect(result.status != 0)
    #expect(result.stderr.hasPrefix("Please build the program first: make release\n"))
  }
}
