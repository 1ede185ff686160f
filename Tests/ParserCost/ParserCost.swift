// Runs every parser of foreign bytes on hostile texts of two sizes, for `Tests/instructions` to count what each run
// costs. Prints a line for each run: the parser, the text, the factor of its size, and the name of the function that the
// count of this parser's dump is found under.
//
// Only debug builds let it see the parsers that no other module sees.

#if DEBUG
  import CountedCalls

  @main
  enum ParserCost {
    /// Bytes of the shortest text. The longest, four times that, stays below every limit on a field, a query or a token.
    static let size = 384

    static func main() {
      for parser in Parser.all {
        // What is made once, at first use, is no part of the cost.
        parser.run(HostileText.padding.bytes(64))
        let runs = HostileText.all.filter { $0.kind == .any || $0.kind == parser.kind }.flatMap { text in
          [1, 4].map { factor in (text, factor, parser.frame(text.bytes(size * factor))) }
        }
        precondition(runs.count <= COUNTED_CALLS, "Tests/CountedCalls keeps fewer runs apart.")
        begin_counting()
        for (number, run) in runs.enumerated() { count(UInt32(number)) { parser.body(run.2) } }
        end_counting()
        for (number, run) in runs.enumerated() {
          print(parser.name, run.0.name, run.1, "counted_" + String(number / 8) + String(number % 8))
        }
      }
    }

    private static func count(_ number: UInt32, _ body: () -> Void) {
      withoutActuallyEscaping(body) { body in
        var body = body
        unsafe withUnsafeMutablePointer(to: &body) { pointer in
          unsafe counted_call(
            number, { context in unsafe context.assumingMemoryBound(to: (() -> Void).self).pointee() }, pointer)
        }
      }
    }
  }
#else
  @main
  enum ParserCost {
    static func main() { print("Only a debug build counts.") }
  }
#endif
