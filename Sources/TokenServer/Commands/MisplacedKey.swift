/// A private key on the command line, where every user of the machine can see it and the shell's history keeps it.
public enum MisplacedKey {
  /// Why `arguments` are refused, without a word of them; nil if none of them is a key.
  public static func refusal(of arguments: some Sequence<String>) -> CommandResult? {
    guard arguments.contains(where: looksLikeKey) else { return nil }
    return CommandResult(
      .usage,
      diagnostics: [
        "One of the arguments is a key itself, and every user of the machine can see a command line; write the path of "
          + "a file that holds the key."
      ])
  }
}
