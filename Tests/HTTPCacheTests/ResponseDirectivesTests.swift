import HTTP1
import HTTPTypes
import Testing

@testable import HTTPCache

@Suite("Cache-Control of a response")
struct ResponseDirectivesTests {
  private static func parse(_ lines: [String]) -> ResponseDirectives {
    var fields = FieldLines()
    for line in lines { fields.append(HTTPField(name: .cacheControl, value: line)) }
    return ResponseDirectives(fields)
  }

  static let lifetimes: [(label: String, lines: [String], maxAge: Int?)] = [
    ("plain", ["max-age=300"], 300),
    ("in capitals", ["MAX-AGE=300"], 300),
    ("quoted", [#"max-age="300""#], 300),
    ("zero", ["max-age=0"], 0),
    ("with leading zeros", ["max-age=000300"], 300),
    ("among others", ["public , foo=bar,,  max-age=300 , immutable"], 300),
    ("behind a quoted comma", [#"ext="a, max-age=1", max-age=300"#], 300),
    ("behind a quoted quote", [#"ext="a\", max-age=1", max-age=300"#], 300),
    ("on the second line", ["public", "max-age=300"], 300),
    ("2³¹ and more", ["max-age=2147483649"], 1 << 31),
    ("beyond any integer", ["max-age=99999999999999999999999999"], 1 << 31),
    ("twice the same", ["max-age=300, max-age=300"], 300),
    ("twice, differing", ["max-age=300, max-age=400"], 0),
    ("on two lines, differing", ["max-age=300", "max-age=0300, max-age=301"], 0),
    ("negative", ["max-age=-1"], 0),
    ("a fraction", ["max-age=1.5"], 0),
    ("no number", ["max-age=soon"], 0),
    ("without an argument", ["max-age"], 0),
    ("with an empty one", ["max-age="], 0),
    ("with an empty quoted one", [#"max-age="""#], 0),
    ("with space before the sign", ["max-age =300"], 0),
    ("with space behind the sign", ["max-age= 300"], 0),
    ("with garbage behind", ["max-age=300 400"], 0),
    ("with semicolon", ["max-age=300;public"], 0),
    ("absent", ["public"], nil),
    ("another name", ["x-max-age=300"], nil),
    ("in a quoted string", [#"ext="max-age=300""#], nil),
    ("nothing", [""], nil),
    ("commas only", [",,, ,"], nil),
    ("a garbled element before it", ["=, ;;\u{7b}x, max-age=300"], 300),
  ]

  @Test("has a max-age", arguments: lifetimes)
  func maxAge(label: String, lines: [String], maxAge: Int?) {
    #expect(Self.parse(lines).maxAge == maxAge, "\(label)")
  }

  static let flags: [(lines: [String], flag: @Sendable (ResponseDirectives) -> Bool)] = [
    (["no-store"], { $0.noStore }),
    (["No-Store"], { $0.noStore }),
    (["no-store=1"], { $0.noStore }),
    (["no-store x"], { $0.noStore }),
    (["public", "max-age=5, no-store"], { $0.noStore }),
    ([#"ext="never ends, no-store"#], { $0.noStore }),
    ([#"max-age=300 "never ends"#], { $0.noStore }),
    (["private"], { $0.isPrivate }),
    ([#"private="Set-Cookie, X-User""#], { $0.isPrivate }),
    (["no-cache"], { $0.noCache }),
    ([#"no-cache="Set-Cookie""#], { $0.noCache }),
    (["must-revalidate"], { $0.mustRevalidate }),
    (["proxy-revalidate"], { $0.proxyRevalidate }),
    (["must-understand"], { $0.mustUnderstand }),
    (["no-transform"], { $0.noTransform }),
    (["must-revalidate"], { $0.forbidsStale }),
    (["proxy-revalidate"], { $0.forbidsStale }),
    (["no-cache"], { $0.forbidsStale }),
    (["s-maxage=5"], { $0.forbidsStale }),
  ]

  @Test("sets flags", arguments: flags)
  func flag(lines: [String], flag: @Sendable (ResponseDirectives) -> Bool) {
    #expect(flag(Self.parse(lines)))
    #expect(!flag(Self.parse(["max-age=5, no-storage, privates, no-cach"])))
  }

  @Test("has the windows of RFC 5861 and s-maxage")
  func windows() {
    let directives = Self.parse(["max-age=600, stale-while-revalidate=30", "stale-if-error=1200, s-maxage=7"])
    #expect(directives.staleWhileRevalidate == 30)
    #expect(directives.staleIfError == 1200)
    #expect(directives.sharedMaxAge == 7)
  }
}
