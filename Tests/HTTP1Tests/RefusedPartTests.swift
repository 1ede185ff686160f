import Testing

@testable import HTTP1

@Suite("A refused request")
struct RefusedPartTests {
  @Test(
    "names the part of the target that it is about, if that is visible ASCII",
    arguments: [
      (.malformedPercentEncoding, "/a?b=%zz", "%zz, at byte 6 of the target"),
      (.malformedPercentEncoding, "/%41?b=100%", "%, at byte 11 of the target"),
      (.malformedPercentEncoding, "/%2", "%2, at byte 2 of the target"),
      (.encodedNUL, "/%41%00", "%00, at byte 5 of the target"),
      (.fragmentInTarget, "/a#b", "#, at byte 3 of the target"),
      (.malformedPercentEncoding, "/%é", nil), (.malformedTarget, "/{", nil), (.requestLineTooLong, "/%zz", nil),
      (.malformedPercentEncoding, "/%41", nil), (.encodedNUL, "", nil),
    ] as [(RequestError, String, String?)])
  func part(_ error: RequestError, _ target: String, _ part: String?) {
    #expect(error.part(of: Array(target.utf8).span) == part)
  }

  @Test("is read on for its other fields only if its lines are clear", arguments: RequestError.allCases)
  func lines(_ error: RequestError) {
    let ofBytes: [RequestError] = [
      .bareLineFeed, .bareCarriageReturn, .controlCharacter, .obsoleteFolding, .emptyFieldName, .malformedFieldName,
      .whitespaceInFieldName, .repeatedEmptyLine, .malformedRequestLine, .malformedMethod, .methodTooLong,
      .unsupportedVersion,
    ]
    let ofContent: [RequestError] = [
      .malformedChunkSize, .malformedChunkExtension, .chunkExtensionsTooLong, .malformedChunkEnd,
      .trailerSectionTooLarge,
    ]
    #expect(error.leavesLinesClear == !(ofBytes + ofContent).contains(error))
  }

  @Test("shows whether it has a music user token, by either name", arguments: ["Music-User-Token", "media-user-TOKEN"])
  func userToken(_ name: String) throws {
    for (line, isThere) in [("\(name): a\r\n", true), ("\(name):\r\n", true), ("X-\(name): a\r\n", false), ("", false)]
    {
      var parser = RequestHeadParser()
      _ = try parser.parse(array: Array("GET / HTTP/1.1\r\nHost: a\r\n\(line)\r\n".utf8))
      #expect(parser.head.hasUserToken == isThere)
      parser.reset()
      #expect(!parser.head.hasUserToken)
    }
  }

  @Test("keeps of a refused head only the lines of one field, and no mark of another")
  func forgotten() {
    var parser = RequestHeadParser()
    let head =
      "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: ::1\r\ntraceparent: a\r\nMusic-User-Token: a\r\nExpect: b\r\n\r\n"
    #expect(throws: RequestError.self) { try parser.parse(array: Array(head.utf8)) }
    #expect(parser.head.hasTraceParent && parser.head.hasUserToken && !parser.head.forwarding.isEmpty)
    let kept = parser.head.forget(keeping: [("origin", Array("b".utf8))])
    #expect(kept == Array("originb".utf8) && parser.head.fields.count == 1)
    #expect(!parser.head.hasTraceParent && !parser.head.hasUserToken && parser.head.forwarding.isEmpty)
  }
}
