import HTTP1
import HTTPTypes
import Testing

@testable import HTTPCache

@Suite("The result of a cache lookup")
struct LookupTests {
  /// The outcome of a lookup, without its response.
  enum Outcome: Equatable, Sendable {
    case hit, revalidating, validate(ForwardReason), miss(ForwardReason), unsatisfiable

    init(_ lookup: Lookup) {
      switch lookup {
      case .hit: self = .hit
      case .staleWhileRevalidate: self = .revalidating
      case .validate(_, let reason): self = .validate(reason)
      case .miss(let reason): self = .miss(reason)
      case .unsatisfiable: self = .unsatisfiable
      }
    }
  }

  struct Case: CustomTestStringConvertible, Sendable {
    let stored: String
    let age: Int
    let request: String
    let outcome: Outcome
    var testDescription: String { "[\(stored)] aged \(age), asked by [\(request)]" }

    init(_ stored: String, _ age: Int, _ request: String, _ outcome: Outcome) {
      (self.stored, self.age, self.request, self.outcome) = (stored, age, request, outcome)
    }
  }

  static let cases = [
    // RFC 9111 §4.2: fresh while the lifetime exceeds the age.
    Case("max-age=60", 0, "", .hit),
    Case("max-age=60", 59, "", .hit),
    Case("max-age=60", 60, "", .validate(.stale)),
    // §5.2.1.1 max-age, §5.2.1.2 max-stale, §5.2.1.3 min-fresh.
    Case("max-age=60", 30, "max-age=30", .hit),
    Case("max-age=60", 31, "max-age=30", .validate(.request)),
    Case("max-age=60", 0, "max-age=0", .hit),
    Case("max-age=60", 1, "max-age=0", .validate(.request)),
    Case("max-age=60", 70, "max-age=65", .validate(.stale)),
    Case("max-age=60", 50, "min-fresh=10", .hit),
    Case("max-age=60", 51, "min-fresh=10", .validate(.request)),
    Case("max-age=60", 70, "max-stale", .hit),
    Case("max-age=60", 70, "max-stale=10", .hit),
    Case("max-age=60", 71, "max-stale=10", .validate(.stale)),
    Case("max-age=60", 70, "max-stale=10, max-age=70", .hit),
    Case("max-age=60", 70, "max-stale=10, max-age=69", .validate(.stale)),
    Case("max-age=60", 70, "max-stale=10, min-fresh=0", .validate(.stale)),
    // §5.2.2: directives that forbid stale use.
    Case("max-age=60, must-revalidate", 70, "max-stale", .validate(.stale)),
    Case("max-age=60, proxy-revalidate", 70, "max-stale", .validate(.stale)),
    Case("s-maxage=60", 70, "max-stale", .validate(.stale)),
    Case("s-maxage=60, stale-while-revalidate=30", 70, "", .validate(.stale)),
    Case("must-revalidate", 301, "", .validate(.stale)),
    // §5.2.1.4 no-cache, §5.2.2.4.
    Case("max-age=60", 0, "no-cache", .validate(.request)),
    Case("max-age=60", 70, "no-cache", .validate(.stale)),
    Case("max-age=60", 70, "no-cache, max-stale", .validate(.stale)),
    Case("no-cache", 0, "", .validate(.stale)),
    Case("no-cache, max-age=60", 0, "max-stale", .validate(.stale)),
    // §5.2.1.5: no-store does not forbid a response that is stored already.
    Case("max-age=60", 0, "no-store", .hit),
    // §5.2.1.7.
    Case("max-age=60", 0, "only-if-cached", .hit),
    Case("max-age=60", 70, "only-if-cached", .unsatisfiable),
    Case("max-age=60", 0, "only-if-cached, no-cache", .unsatisfiable),
    Case("max-age=60", 70, "only-if-cached, max-stale", .hit),
    Case("max-age=60, stale-while-revalidate=30", 70, "only-if-cached", .revalidating),
    // RFC 5861 §3: for the window that the origin gives, or the default if the origin gave no freshness at all.
    Case("max-age=60, stale-while-revalidate=30", 60, "", .revalidating),
    Case("max-age=60, stale-while-revalidate=30", 89, "", .revalidating),
    Case("max-age=60, stale-while-revalidate=30", 90, "", .validate(.stale)),
    Case("max-age=60, stale-while-revalidate=30", 70, "max-age=80", .validate(.stale)),
    Case("max-age=60, stale-while-revalidate=30", 70, "no-cache", .validate(.stale)),
    Case("max-age=60, must-revalidate, stale-while-revalidate=30", 70, "", .validate(.stale)),
    Case("", 299, "", .hit),
    Case("", 300, "", .revalidating),
    Case("", 359, "", .revalidating),
    Case("", 360, "", .validate(.stale)),
  ]

  @Test("depends on the Cache-Control of the request and of the response", arguments: cases)
  func outcome(_ test: Case) throws {
    let cache = ResponseCache(settings: CacheSettings())
    let key = CacheKey("/v1/catalog/us/albums/1")
    var fields: FieldLines = [.eTag: "\"1\""]
    if !test.stored.isEmpty { fields[.cacheControl] = test.stored }
    #expect(cache.store(try Sample.response(.ok, fields), for: key))
    let lookup = cache.lookup(
      key, sending: [:], request: Sample.request(test.request), now: Sample.time(test.age))
    #expect(Outcome(lookup) == test.outcome)
  }

  @Test("is a miss if nothing is stored")
  func miss() {
    let cache = ResponseCache(settings: CacheSettings())
    func outcome(_ request: RequestDirectives) -> Outcome {
      Outcome(cache.lookup(CacheKey("/a"), sending: [:], request: request, now: Sample.time(0)))
    }
    #expect(outcome(RequestDirectives()) == .miss(.uriMiss))
    #expect(outcome(Sample.request("no-cache")) == .miss(.uriMiss))
    #expect(outcome(Sample.request("only-if-cached")) == .unsatisfiable)
  }

  static let failures: [(stored: String, age: Int, request: String, serves: Bool)] = [
    ("max-age=60", 30, "", true),
    ("max-age=60", 30, "max-age=0", true),
    ("max-age=60", 30, "no-cache", false),
    ("max-age=60", 60 + 86_399, "", true),
    ("max-age=60", 60 + 86_400, "", false),
    ("max-age=60, stale-if-error=30", 89, "", true),
    ("max-age=60, stale-if-error=30", 90, "", false),
    ("max-age=60, stale-if-error=0", 60, "", false),
    ("max-age=60", 100, "stale-if-error=41", true),
    ("max-age=60", 100, "stale-if-error=40", false),
    ("max-age=60", 100, "no-cache", false),
    ("max-age=60, must-revalidate", 60, "", false),
    ("max-age=60, must-revalidate", 60, "stale-if-error=99", false),
    ("max-age=60, proxy-revalidate", 60, "", false),
    ("s-maxage=60", 60, "", false),
    ("no-cache", 0, "", false),
    ("", 300 + 86_399, "", true),
    ("", 300 + 86_400, "", false),
  ]

  @Test("a stored response replaces a failed upstream response within the allowed staleness", arguments: failures)
  func onError(stored: String, age: Int, request: String, serves: Bool) throws {
    let fields: FieldLines = stored.isEmpty ? [:] : [.cacheControl: stored]
    let selection = Selection(try Sample.response(.ok, fields), now: Sample.time(age))
    #expect(selection.mayServeOnError(Sample.request(request)) == serves)
  }

  @Test("has the age and the remaining lifetime of the response")
  func selection() throws {
    let cache = ResponseCache(settings: CacheSettings())
    let key = CacheKey("/")
    cache.store(try Sample.response(.ok, [.cacheControl: "max-age=60", .age: "5", .date: Sample.date(-5)]), for: key)
    let lookup = cache.lookup(key, sending: [:], request: RequestDirectives(), now: Sample.time(10))
    guard case .hit(let selection) = lookup else { return #expect(Bool(false), "\(lookup)") }
    #expect(selection.age == 15 && selection.timeToLive == 45)
    let fields = selection.fields(CacheStatus(.hit, timeToLive: selection.timeToLive), isValidated: false)
    #expect(
      fields.lines == [
        "Date: \(Sample.date(-5))", "Age: 15", "Cache-Status: musickit-token-server; hit; ttl=45",
      ])

  }
}
