import HTTP1
import HTTPTypes
import TestSupport
import Testing

@testable import HTTPCache

@Suite("The freshness of a response")
struct FreshnessTests {
  struct Case: CustomTestStringConvertible, Sendable {
    let label: String
    let status: HTTPResponse.Status
    let fields: FieldLines
    let lifetime: Int
    var testDescription: String { label }

    init(_ label: String, _ fields: FieldLines, _ lifetime: Int, status: HTTPResponse.Status = .ok) {
      (self.label, self.status, self.fields, self.lifetime) = (label, status, fields, lifetime)
    }
  }

  static let lifetimes = [
    Case("nothing said", [:], 300),
    Case("nothing said of a 404", [:], 60, status: .notFound),
    Case("nothing said of a 410", [:], 60, status: .gone),
    Case("nothing said of a 301", [:], 300, status: .movedPermanently),
    Case("max-age", [.cacheControl: "max-age=7"], 7),
    Case("max-age of a 404", [.cacheControl: "max-age=7"], 7, status: .notFound),
    Case("s-maxage before max-age", [.cacheControl: "max-age=7, s-maxage=9"], 9),
    Case("s-maxage of 0", [.cacheControl: "max-age=7, s-maxage=0"], 0),
    Case("max-age before Expires", [.cacheControl: "max-age=7", .expires: Sample.date(99)], 7),
    Case("Expires less Date", [.date: Sample.date(-10), .expires: Sample.date(50)], 60),
    Case("Expires less the time of receipt", [.expires: Sample.date(50)], 50),
    Case("Expires less the time of receipt, Date being none", [.date: "soon", .expires: Sample.date(50)], 50),
    Case("Expires of 0", [.expires: "0"], 0),
    Case("Expires in the past", [.expires: Sample.date(-50)], 0),
    Case("Expires equal to Date", [.date: Sample.date(0), .expires: Sample.date(0)], 0),
    Case("Cache-Control that names no lifetime", [.cacheControl: "public", .expires: Sample.date(50)], 50),
    Case("max-age that is no number", [.cacheControl: "max-age=x", .expires: Sample.date(50)], 0),
  ]

  @Test("the freshness lifetime comes from the origin, or else from the settings", arguments: lifetimes)
  func lifetime(_ test: Case) throws {
    #expect(try Sample.response(test.status, test.fields).judged.freshness.lifetime == test.lifetime)
  }

  @Test("the freshness lifetime is 0 if two Expires fields differ")
  func twoExpires() throws {
    var fields: FieldLines = [.expires: Sample.date(50)]
    fields.append(HTTPField(name: .expires, value: Sample.date(50)))
    #expect(try Sample.response(.ok, fields).judged.freshness.lifetime == 50)
    fields.append(HTTPField(name: .expires, value: Sample.date(60)))
    #expect(try Sample.response(.ok, fields).judged.freshness.lifetime == 0)
  }

  static let ages: [(label: String, fields: FieldLines, delay: Int, age: Int)] = [
    ("nothing said", [:], 0, 0),
    ("Age", [.age: "30"], 0, 30),
    ("Age and the time it took", [.age: "30"], 4, 34),
    ("the time it took", [:], 4, 4),
    ("Date", [.date: Sample.date(-20)], 0, 20),
    ("Date before Age", [.date: Sample.date(-20), .age: "5"], 4, 20),
    ("Age before Date", [.date: Sample.date(-20), .age: "30"], 0, 30),
    ("Date in the future", [.date: Sample.date(100)], 0, 0),
    ("Age that is none", [.age: "old"], 0, 0),
    ("negative Age", [.age: "-5"], 0, 0),
    ("a list of ages", [.age: "7, 9"], 0, 7),
    ("Age beyond counting", [.age: "99999999999999999999"], 5, 1 << 31),
  ]

  @Test("the age of a response starts with the age at receipt", arguments: ages)
  func initialAge(label: String, fields: FieldLines, delay: Int, age: Int) throws {
    let response = try Sample.response(.ok, fields, delay: delay)
    #expect(response.judged.age.initial == age, "\(label)")
    #expect(Selection(response, now: Sample.time(10)).age == min(age + 10, 1 << 31), "\(label)")
  }

  @Test("the age of a response does not change with the wall clock")
  func clockStep() throws {
    let response = try Sample.response(.ok, [.cacheControl: "max-age=60"])
    var now = Sample.time(10)
    for wall in [0, Sample.start - 86_400, Sample.start + 86_400, .max] {
      now.wall = wall
      #expect(Selection(response, now: now).age == 10)
    }
  }

  @Test("the age of a response is never negative and never overflows", arguments: [Int.min, -1, 0, Int.max])
  func monotonic(nanoseconds: Int) throws {
    let response = try Sample.response(.ok, [.cacheControl: "max-age=60"])
    let age = Selection(response, now: CacheTime(monotonic: nanoseconds, wall: 0)).age
    #expect(age >= 0 && age <= 1 << 31)
  }

  /// RFC 9111 §4.2 in plain arithmetic, written from its text, as a model for the test.
  private func model(
    maxAge: Int?, shared: Int?, expires: Int?, date: Int?, age: Int?, delay: Int, elapsed: Int
  ) -> (age: Int, isFresh: Bool) {
    let responseTime = 0
    let dateValue = date ?? responseTime
    let apparentAge = max(0, responseTime - dateValue)
    let correctedAge = (age ?? 0) + delay
    let currentAge = max(apparentAge, correctedAge) + elapsed
    var lifetime = 300
    if let expires { lifetime = expires - dateValue }
    if let maxAge { lifetime = maxAge }
    if let shared { lifetime = shared }
    return (currentAge, lifetime > currentAge)
  }

  @Test("age and freshness match a model of RFC 9111 §4.2 for random combinations")
  func againstModel() throws {
    var random = SplitMix(seed: 1)
    func maybe(_ range: Range<Int>) -> Int? {
      Bool.random(using: &random) ? Int.random(in: range, using: &random) : nil
    }
    for _ in 0..<3000 {
      let (maxAge, shared, expires) = (maybe(0..<50), maybe(0..<50), maybe(-20..<50))
      let (date, age) = (maybe(-30..<10), maybe(0..<30))
      let (delay, elapsed) = (Int.random(in: 0..<10, using: &random), Int.random(in: 0..<60, using: &random))
      let directives = [maxAge.map { "max-age=\($0)" }, shared.map { "s-maxage=\($0)" }].compactMap { $0 }
      var fields = FieldLines()
      if !directives.isEmpty { fields[.cacheControl] = directives.shuffled(using: &random).joined(separator: ",") }
      fields[.expires] = expires.map(Sample.date)
      fields[.date] = date.map(Sample.date)
      fields[.age] = age.map(String.init)
      let selection = Selection(try Sample.response(.ok, fields, delay: delay), now: Sample.time(elapsed))
      let model = model(
        maxAge: maxAge, shared: shared, expires: expires, date: date, age: age, delay: delay, elapsed: elapsed)
      #expect(selection.age == model.age, "\(fields)")
      #expect(selection.isFresh == model.isFresh, "\(fields)")
    }
  }
}
