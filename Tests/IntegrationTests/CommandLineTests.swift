import TestSupport
import Testing

@Suite("The command line")
struct CommandLineTests {
  @Test("ends with status 1 and a message if standard output is not writable")
  func fullOutput() throws {
    let ground = try Ground()
    let mint = ["mint", "--key-file", ground.keyFile, "--team-id", Ground.teamID]
    let token = String(try Program.run(mint).stdout.dropLast())
    let commands = [
      mint, ["inspect", token], ["check-config"], ["new-api-key"], ["--version"], ["-V"], ["--help"], ["help", "mint"],
      ["serve", "--help"],
    ]
    for command in commands {
      for (output, reason) in [(">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")] {
        let script = ["-c", "exec \"$0\" \"$@\" \(output)", Program.path] + command
        let result = try TestSupport.run("/bin/sh", script, environment: ground.settings)
        #expect(result.status == 1, "\(command) \(output)")
        #expect(
          result.stderr == "The program cannot write to standard output: \(reason).\n", "\(command) \(output)")
      }
    }
  }

  @Test(
    "has a help text for each command",
    arguments: ["serve", "demo", "mint", "inspect", "check-config", "doctor", "healthcheck"])
  func help(_ command: String) throws {
    let result = try Program.run([command, "--help"])
    #expect(result.status == 0)
    #expect(result.stdout.contains("USAGE: musickit-token-server \(command)"))
    #expect(result.stderr.isEmpty)
  }

  @Test("has exactly the commands of docs/configuration.md")
  func documented() throws {
    let help = try Program.run(["--help"]).stdout
    let list = try #require(help.split(separator: "SUBCOMMANDS:\n", maxSplits: 1).last)
    let commands = Set(list.matches(of: /(?m)^  ([a-z-]+)(?: \(default\))? {2,}\S/).map { String($0.output.1) })
    let document = try TextFile.read("\(Repository.path)/docs/configuration.md")
    let section = try #require(document.split(separator: "\n## ").first { $0.hasPrefix("Commands\n") })
    let rows = Set(section.matches(of: /(?m)^\| `([a-z-]+)[^`]*` \|/).map { String($0.output.1) })
    #expect(commands.contains("serve") && commands == rows)
  }

  @Test("prints the version and the kind of build", arguments: ["--version", "-V"])
  func version(_ flag: String) throws {
    let result = try Program.run([flag])
    #expect(result.status == 0)
    #expect(result.stdout.wholeMatch(of: /\d+\.\d+\.\d+ \(development build\)\n/) != nil)
  }

  @Test("make release sets the commit and its date for --version, and puts libstdc++ into the program")
  func release() throws {
    let arguments = ["-C", Repository.path, "--no-print-directory", "--dry-run", "--assume-old=toolchain", "release"]
    let build = try run("make", arguments)
    let commit = try run("git", ["-C", Repository.path, "log", "-1", "--abbrev=12", "--format=%h, %cs"]).stdout
      .dropLast()
    #expect(commit.wholeMatch(of: /[0-9a-f]{12,}, \d{4}-\d\d-\d\d/) != nil)
    #expect(
      build.stdout.split(separator: "\n").contains {
        $0.hasPrefix("SOURCE_REVISION='\(commit)") && $0.contains("-L.build/archives")
      }, "\(build.stdout)\(build.stderr)")
  }

  @Test("accepts a negative number as the value of an option")
  func negative() throws {
    let result = try Program.run(["sandbox", "--clock-skew", "-1000000001"])
    #expect(result.status == 64)
    #expect(
      result.stderr == "--clock-skew \"-1000000001\" is not a number of seconds from -1000000000 to 1000000000.\n")
  }

  @Test("keeps its arguments if a preloaded library sets an environment variable before the program starts")
  func preloaded() throws {
    // Linked as a release is, with Swift's runtime in the program. A debug build has the runtime in a library, which
    // starts before any that is preloaded.
    let directory = try TemporaryDirectory()
    let platform = "\(Repository.path)/Sources/CPlatform"
    let files = [
      "module.modulemap": "module CPlatform { header \"\(platform)/include/CPlatform.h\" }",
      "preloaded.c": """
      #include <stdlib.h>
      __attribute__((constructor)) static void start(void) { setenv("ANOTHER", "1", 1); }
      """,
      "main.swift": "print(ProgramArguments.name, ProgramArguments.list)",
    ]
    for (name, content) in files { try directory.write(content, to: name) }
    func compile(_ compiler: String, _ arguments: [String]) throws {
      let result = try TestSupport.run(compiler, arguments)
      try #require(result.status == 0, "\(result.stdout)\(result.stderr)")
    }
    let library = directory.path(of: "preloaded.so")
    try compile("clang", ["-shared", "-fPIC", "-o", library, directory.path(of: "preloaded.c")])
    let platformObject = directory.path(of: "CPlatform.o")
    try compile("clang", ["-c", "-I\(platform)/include", "-o", platformObject, "\(platform)/CPlatform.c"])
    let program = directory.path(of: "program")
    try compile(
      "swiftc",
      [
        "-static-stdlib", "-I", directory.path, "-o", program, directory.path(of: "main.swift"),
        "\(Repository.path)/Sources/Commands/ProgramArguments.swift", platformObject,
      ])
    let result = try TestSupport.run(program, ["mint", "--json"], environment: ["LD_PRELOAD": library])
    #expect(result.stdout == "\(program) [\"mint\", \"--json\"]\n", "\(result.stderr)")
  }

  @Test(
    "ends with status 64 for invalid arguments",
    arguments: [
      ["--bogus"], ["bogus"], ["mint"], ["serve", "--set", "token.ttl"], ["demo", "--port", "x"],
      ["mint", "--key-file", "x.p8", "--team-id", "short"], ["healthcheck", "--url", "ftp://localhost"],
      ["sandbox", "--clock-skew", "9223372036854775807"], ["sandbox", "--clock-skew=-9223372036854775808"],
      ["sandbox", "--clock-skew", "1000000001"], ["sandbox", "--clock-skew", "1e9"], ["sandbox", "--rate", "0"],
      ["sandbox", "--rate", "9223372036854775807"], ["sandbox", "--fault", "delay=9223372036854775807s"],
      ["sandbox", "--fault", "huge=9223372036854775808"], ["sandbox", "--fault", "slow=-1"],
      ["sandbox", "--port", "65536"], ["demo", "--port=-1"],
      ["mint", "--key-file", "x.p8", "--team-id", "TEAM123456", "--ttl", "9223372036854775807d"],
    ])
  func usage(_ arguments: [String]) throws {
    let result = try Program.run(arguments)
    #expect(result.status == 64, "\(result.stderr)")
    #expect(result.stdout.isEmpty)
    #expect(!result.stderr.isEmpty)
  }
}
