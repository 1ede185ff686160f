import Testing

@testable import HTTP1

@Suite("Byte sets")
struct ByteSetTests {
  private static let alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
  private static let pchar = alphanumeric + "-._~" + "!$&'()*+,;=" + ":@%"

  @Test(
    "contain exactly the characters of their grammars",
    arguments: [
      ("token", ByteSet.token, alphanumeric + "!#$%&'*+-.^_`|~"),
      ("path", ByteSet.path, pchar + "/" + "[]^|" + "\"<>"),
      ("query", ByteSet.query, pchar + "/?" + "[]\\^`{|}" + "\"<>"),
      ("reg-name", ByteSet.registeredName, alphanumeric + "-._~" + "!$&'()*+;=" + "%"),
    ])
  func members(name: String, set: ByteSet, characters: String) {
    let expected = Set(characters.utf8)
    for byte in UInt8.min...UInt8.max {
      #expect(set.contains(byte) == expected.contains(byte), "\(name): \(byte)")
    }
  }

  @Test("the search for a control character finds each at every position")
  func firstControl() {
    for byte in UInt8.min...UInt8.max {
      for place in 0..<17 {
        for filler: UInt8 in [0x20, 0x7e, 0x80, 0xff] {
          var bytes = Array(repeating: filler, count: 19)
          bytes[place] = byte
          #expect(bytes.span.firstControl(from: 0) == (byte < 0x20 || byte == 0x7f ? place : 19))
        }
      }
    }
  }

  @Test("the search for a byte finds the first at every position, and not outside of the range")
  func firstIndex() {
    for byte in [0, 0x2c, 0x7f, 0x80, 0xff] as [UInt8] {
      for filler in UInt8.min...UInt8.max where filler != byte {
        for place in 0..<19 {
          var bytes = Array(repeating: filler, count: 19)
          bytes[place] = byte
          bytes[18] = byte
          #expect(bytes.span.firstIndex(of: byte, in: 0..<19) == place)
          #expect(bytes.span.firstIndex(of: byte, in: 1..<18) == (1..<18 ~= place ? place : nil))
        }
      }
    }
  }

  @Test("the search for the end of a token finds each other byte at every position, and not beyond its end")
  func endOfToken() {
    for byte in UInt8.min...UInt8.max {
      for place in 0..<17 {
        for filler in "azAZ-09_".utf8 {
          var bytes = Array(repeating: filler, count: 19)
          bytes[place] = byte
          let end = ByteSet.token.contains(byte) ? 19 : place
          #expect(bytes.span.endOfToken(from: 0, to: 19) == end, "\(byte) at \(place) in \(filler)")
          #expect(bytes.span.endOfToken(from: 1, to: 9) == min(max(end, 1), 9) || place == 0)
        }
      }
    }
  }
}
