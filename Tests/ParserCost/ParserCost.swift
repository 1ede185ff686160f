// Runs every parser of foreign bytes on hostile texts of two sizes, for `Tests/instructions` to count what each run
// costs. Prints a line for each run, in the order of the counts.
//
// Only debug builds let it see the parsers that no other module sees.

#if DEBUG
  @main
  enum ParserCost {
    /// Bytes of the shortest text. The longest, four times that, stays below every limit on a field, a query or a token.
    static let size = 384

    static func main() {
      for parser in Parser.all {
        // What is made once, at first use, is no part of the cost.
        parser.run(HostileText.padding.bytes(64))
        for text in HostileText.all where text.kind == .any || text.kind == parser.kind {
          for factor in [1, 4] {
            let bytes = parser.frame(text.bytes(size * factor))
            beginCounting()
            parser.body(bytes)
            endCounting()
            print(parser.name, text.name, factor)
          }
        }
      }
    }
  }

  /// callgrind starts to count when this is called.
  @inline(never)
  public func beginCounting() {}

  /// callgrind writes down what it has counted when this is called.
  @inline(never)
  public func endCounting() {}
#else
  @main
  enum ParserCost {
    static func main() { print("Only a debug build counts.") }
  }
#endif
