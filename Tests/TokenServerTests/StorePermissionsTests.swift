import TestSupport
import Testing

@testable import TokenServer

@Suite("The permissions at the store")
struct StorePermissionsTests {
  @Test("are in the document as doctor prints them")
  func document() throws {
    let document = try TextFile.read("\(Document.root)/docs/scaling.md")
    #expect(document.contains("\nACL SETUSER musickit on >PASSWORD \(StorePermissions.rules(prefix: "musickit"))\n"))
  }
}
