#if DEBUG
  /// One way in which foreign bytes get in: how a text is put there, and what reads it.
  struct Parser {
    let name: String
    /// Which texts it may trip over, beside those that every parser gets.
    var kind = HostileText.Kind.any
    /// Puts a text where it may stand. Not counted.
    let frame: ([UInt8]) -> [UInt8]
    /// What is counted.
    let body: ([UInt8]) -> Void

    init(_ name: String, _ frame: @escaping ([UInt8]) -> [UInt8], _ body: @escaping ([UInt8]) -> Void) {
      (self.name, self.frame, self.body) = (name, frame, body)
    }

    /// One that reads the text by itself.
    init(_ name: String, _ body: @escaping ([UInt8]) -> Void) {
      self.init(name, { $0 }, body)
    }

    /// The same, with the text between two others.
    init(_ name: String, _ before: String, _ after: String, _ body: @escaping ([UInt8]) -> Void) {
      self.init(name, { Array(before.utf8) + $0 + Array(after.utf8) }, body)
    }

    func run(_ text: [UInt8]) { body(frame(text)) }

    static var all: [Parser] {
      json.map { $0.reading(.json) } + tokens.map { $0.reading(.json) }
        + (targets + emulator).map { $0.reading(.query) }
        + (fields + messages + access).map { $0.reading(.field) }
    }

    private func reading(_ kind: HostileText.Kind) -> Parser {
      var parser = self
      parser.kind = kind
      return parser
    }
  }
#endif
