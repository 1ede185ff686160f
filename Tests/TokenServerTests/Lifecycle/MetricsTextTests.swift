import Testing

@testable import TokenServer

@Suite("The metrics text")
struct MetricsTextTests {
  private static func text(_ write: (inout MetricsText) -> Void) -> String {
    var text = MetricsText()
    write(&text)
    return String(decoding: text.bytes, as: UTF8.self)
  }

  @Test("puts HELP and TYPE before the samples of a metric")
  func samples() {
    let readings: [MetricReading<Int>] = [
      MetricReading("a_total", "What a is.", labels: ["x", "y"]) {
        [([.word("p"), .number(200)], $0), ([.word("q"), .number(404)], 4)]
      }
    ]
    let text = Self.text { $0.add(readings, of: 3) }
    #expect(
      text == """
        # HELP a_total What a is.
        # TYPE a_total counter
        a_total{x="p",y="200"} 3
        a_total{x="q",y="404"} 4

        """)
  }

  @Test("contains the current value of each reading")
  func readings() {
    let readings: [MetricReading<(count: Int, seconds: Double, isOn: Bool, none: Int?)>] = [
      MetricReading("a_total", "A.") { $0.count },
      MetricReading("b_seconds", "B.") { $0.seconds },
      MetricReading("c", "C.") { $0.isOn },
      MetricReading("d", "D.") { $0.none },
    ]
    let text = Self.text { $0.add(readings, of: (7, 0.25, true, nil)) }
    #expect(text.split(separator: "\n").filter { !$0.hasPrefix("#") } == ["a_total 7", "b_seconds 0.25", "c 1"])
  }

  @Test(
    "formats numbers as the Prometheus text format requires",
    arguments: [
      (0, "0"), (-1, "-1"), (1.5, "1.5"), (1e15, "1000000000000000"), (1e-7, "1e-07"), (.infinity, "+Inf"),
      (-.infinity, "-Inf"), (.nan, "NaN"),
    ] as [(Double, String)])
  func numbers(_ value: Double, _ expected: String) {
    let text = Self.text { $0.add([MetricReading("a", "A.") { $0 }], of: value) }
    #expect(text.hasSuffix("\na \(expected)\n"))
  }

  @Test("escapes line feeds, backslashes and quotes")
  func escapes() {
    let text = Self.text { text in
      let reading = MetricReading<String>("a", "one\ntwo \\ \"three\"", labels: ["x"]) {
        [([.configured($0)], 1)]
      }
      text.add([reading], of: "one\ntwo \\ \"three\"")
    }
    #expect(text.hasPrefix(#"# HELP a one\ntwo \\ "three""# + "\n"))
    #expect(text.hasSuffix(#"a{x="one\ntwo \\ \"three\""} 1"# + "\n"))
  }
}
