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
}
