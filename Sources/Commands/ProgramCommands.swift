package import ArgumentParser

package enum ProgramCommands {
  package static var all: [any ParsableCommand.Type] {
    [
      ServeCommand.self, DemoCommand.self, SandboxCommand.self, MintCommand.self, InspectCommand.self,
      CheckConfigCommand.self, DoctorCommand.self, HealthCheckCommand.self, NewAPIKeyCommand.self,
    ]
  }

  /// The command without arguments.
  package static var usual: any ParsableCommand.Type { ServeCommand.self }

  /// Whether the command runs until a signal ends it.
  package static func serves(_ command: any ParsableCommand) -> Bool {
    command is ServeCommand || command is DemoCommand || command is SandboxCommand
  }
}
