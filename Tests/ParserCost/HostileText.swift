/// A text that may cost more than its length: a piece that is repeated.
struct HostileText {
  /// Where a text may do harm.
  enum Kind {
    case any, json, query, field
  }

  let name: String
  let kind: Kind
  private let start: [UInt8]
  private let piece: [UInt8]
  /// What the second half is made of.
  private let last: [UInt8]

  init(_ name: String, _ piece: String, then last: String? = nil, start: String = "", in kind: Kind = .any) {
    (self.name, self.kind, self.piece, self.start) = (name, kind, Array(piece.utf8), Array(start.utf8))
    self.last = Array((last ?? piece).utf8)
  }

  /// Whole pieces, as many as fit into so many bytes.
  func bytes(_ count: Int) -> [UInt8] {
    var bytes = start
    bytes.reserveCapacity(count)
    while bytes.count + piece.count <= count / 2 { bytes += piece }
    while bytes.count + last.count <= count { bytes += last }
    return bytes
  }

  /// What the lists are compared with.
  static let padding = HostileText("padding", "a")

  static let all = [
    padding,
    // Normalization sorts them by insertion: those below move past all those above.
    HostileText("marks", "\u{301}", then: "\u{316}", start: "a"),
    // Grapheme breaking looks back over them.
    HostileText("flags", "\u{1F1E6}"),
    HostileText("escaped-marks", "%CC%81%CC%96", in: .query),
    HostileText("json-marks", "\\u0301\\u0316", in: .json),
    HostileText("commas", ","),
    HostileText("elements", "a,"),
    HostileText("equals", "a=", in: .query),
    HostileText("ampersands", "a&", in: .query),
    HostileText("weights", "a;q=1,", in: .field),
    HostileText("spaces", " "),
    HostileText("tabs", ",\t", in: .field),
    HostileText("quotes", "\""),
    HostileText("quoted-pairs", "\"\\\"", start: "\"", in: .field),
    HostileText("tags", "\"a\",", in: .field),
    HostileText("backslashes", "\\", in: .json),
    HostileText("digits", "1"),
    HostileText("slashes", "/a", in: .query),
    HostileText("colons", "a:", in: .field),
    HostileText("zeros", "0,", in: .json),
    HostileText("strings", "\"\",", in: .json),
    HostileText("objects", "{\"a\":", in: .json),
    HostileText("members", "\"a\":0,", in: .json),
    HostileText("members-by-marks", "\"e\u{301}\u{316}\u{301}\":0,", in: .json),
  ]
}
