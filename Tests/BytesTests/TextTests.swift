import Testing

@testable import Bytes

@Suite("Appending text to bytes")
struct TextTests {
  private func text(_ write: (inout [UInt8]) -> Void) -> String {
    var bytes: [UInt8] = [UInt8(ascii: ">")]
    write(&bytes)
    return String(decoding: bytes, as: UTF8.self)
  }

  @Test(
    "writes integers in decimal, padded to the minimum width",
    arguments: [
      (0, 1, ">0"), (7, 1, ">7"), (10, 1, ">10"), (1_795_252_938, 1, ">1795252938"), (7, 2, ">07"), (123, 2, ">123"),
      (-5, 1, ">-5"), (-5, 3, ">-005"), (.max, 1, ">9223372036854775807"), (.min, 1, ">-9223372036854775808"),
      (1, 40, ">00000000000000000001"),
    ])
  func decimals(_ number: Int, _ width: Int, _ expected: String) {
    #expect(text { $0.append(decimal: number, width: width) } == expected)
  }

  @Test("writes every number of digits as Swift does")
  func allLengths() {
    var (power, random) = (1, SystemRandomNumberGenerator())
    for digits in 1...19 {
      let next = digits < 19 ? power * 10 : Int.max
      let numbers = (0..<1000).map { _ in Int.random(in: power...next - 1, using: &random) } + [power, next - 1]
      for number in numbers {
        #expect(text { $0.append(decimal: number) } == ">\(number)")
        #expect(text { $0.append(decimal: -number) } == ">-\(number)")
      }
      power = next
    }
    for number in 0..<20_000 { #expect(text { $0.append(decimal: number * 4999) } == ">\(number * 4999)") }
  }

  @Test(
    "writes integers as sixteen hexadecimal digits",
    arguments: [
      (UInt64(0), ">0000000000000000"), (.max, ">ffffffffffffffff"), (0x0123_4567_89ab_cdef, ">0123456789abcdef"),
    ])
  func hexadecimals(_ number: UInt64, _ expected: String) {
    #expect(text { $0.append(hexadecimal: number) } == expected)
  }

  @Test(
    "writes JSON strings with escapes",
    arguments: [
      ("", #">"""#), (#"a"b\c"#, #">"a\"b\\c""#), ("\n\u{0}\u{1f}\u{7f}", #">"\u000a\u0000\u001f\u007f""#),
      ("é🎵", #">"é🎵""#),
    ])
  func jsonStrings(_ string: String, _ expected: String) {
    #expect(text { $0.append(jsonString: string) } == expected)
  }

  @Test(
    "finds a byte that needs an escape wherever it is in the text",
    arguments: ["\"", "\\", "\n", "\u{1f}", "\u{7f}"])
  func jsonEscapes(_ escaped: String) {
    for (before, after) in [(0, 0), (1, 20), (7, 8), (8, 7), (9, 0), (16, 1), (20, 0)] {
      let (start, end) = (String(repeating: "a", count: before), String(repeating: "é", count: after))
      let written = text { $0.append(jsonString: "\(start)\(escaped)\(end)") }
      #expect(written.hasPrefix(">\"\(start)\\") && written.hasSuffix("\(end)\""), "\(before), \(after)")
      #expect(text { $0.append(jsonString: "\(start)\(end) !#[]~") } == ">\"\(start)\(end) !#[]~\"")
    }
  }

  @Test("adds literals and spans after the existing bytes")
  func literals() {
    let bytes: [UInt8] = [0x62, 0x63]
    #expect(text { $0.append("a") } == ">a")
    #expect(text { $0.append(copying: bytes.span) } == ">bc")
  }
}
