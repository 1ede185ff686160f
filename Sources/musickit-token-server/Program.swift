import ArgumentParser

/// The process: what must be so before anything else happens, and then the commands.
@main
enum Program {
  static func main() {
    ProcessSetup.prepare()
    MusicKitTokenServer.main()
  }
}
