import Testing

@testable import CatalogProxy

@Suite struct RemintPolicyTests {
  @Test("a refused token is made anew once, and whoever was refused with the old one tries the new one")
  func once() {
    var policy = RemintPolicy()
    let old = policy.current
    guard case .mint(let fresh) = policy.unauthorized(old, isRetry: false, now: .zero) else {
      Issue.record("not made")
      return
    }
    #expect(fresh > old && policy.current == fresh && !policy.isDegraded)
    for _ in 0..<1000 {
      #expect(policy.unauthorized(old, isRetry: false, now: .milliseconds(1)) == .retryWithCurrent)
    }
    policy.accepted(fresh, now: .milliseconds(2))
    #expect(!policy.isDegraded)
  }

  @Test("when the fresh token is refused, too, everybody is told, and no other is made for a while")
  func rejected() {
    var policy = RemintPolicy()
    _ = policy.unauthorized(policy.current, isRetry: false, now: .zero)
    #expect(policy.unauthorized(policy.current, isRetry: true, now: .milliseconds(1)) == .rejected)
    #expect(policy.isDegraded)
    var minted = 0
    for second in 1...300 {
      for _ in 0..<100 {
        if case .mint = policy.unauthorized(policy.current, isRetry: false, now: .seconds(second)) { minted += 1 }
      }
    }
    #expect(minted == 10 && policy.isDegraded)
  }

  @Test("a request is sent again once only")
  func onlyOnce() {
    var policy = RemintPolicy()
    let old = policy.current
    _ = policy.renewed(hasNewKey: false)
    #expect(policy.unauthorized(old, isRetry: true, now: .zero) == .rejected)
    #expect(!policy.isDegraded, "the current one may be good")
    #expect(policy.unauthorized(policy.current, isRetry: true, now: .zero) == .rejected)
    #expect(policy.isDegraded)
  }

  @Test("it is well again with the first request that the current token is good for")
  func recovery() {
    var policy = RemintPolicy()
    let old = policy.current
    _ = policy.unauthorized(old, isRetry: false, now: .zero)
    _ = policy.unauthorized(policy.current, isRetry: true, now: .zero)
    policy.accepted(old, now: .seconds(1))
    #expect(policy.isDegraded, "an answer that comes late says nothing about it")
    policy.accepted(policy.current, now: .seconds(1))
    #expect(!policy.isDegraded)
  }

  @Test("another key may be tried at once")
  func newKey() {
    var policy = RemintPolicy()
    _ = policy.unauthorized(policy.current, isRetry: false, now: .zero)
    let renewed = policy.renewed(hasNewKey: false)
    #expect(policy.unauthorized(renewed, isRetry: false, now: .seconds(1)) == .rejected)
    let other = policy.renewed(hasNewKey: true)
    guard case .mint = policy.unauthorized(other, isRetry: false, now: .seconds(2)) else {
      Issue.record("not made")
      return
    }
  }

  @Test("a 401 under /v1/me is looked into by one request, and the others wait for what it hears")
  func suspicion() {
    var policy = RemintPolicy()
    let version = policy.current
    #expect(policy.suspected(version, now: .zero) == .askTest)
    #expect(policy.suspected(version, now: .milliseconds(100)) == .wait(.milliseconds(50)))
    policy.tested(.accepted, version, now: .milliseconds(200))
    #expect(policy.suspected(version, now: .milliseconds(250)) == .theirs)
    #expect(policy.suspected(version, now: .milliseconds(10_200)) == .askTest, "trust does not last")
  }

  @Test("it is the user's while the catalog takes the token, and nobody has to ask")
  func trusted() {
    var policy = RemintPolicy()
    policy.accepted(policy.current, now: .zero)
    #expect(policy.suspected(policy.current, now: .seconds(9)) == .theirs)
    #expect(!policy.isDegraded)
  }

  @Test("it is our token's if /v1/test refuses that, too, and then a fresh one is made")
  func ours() {
    var policy = RemintPolicy()
    let version = policy.current
    policy.accepted(version, now: .zero)
    #expect(policy.suspected(version, now: .seconds(11)) == .askTest)
    policy.tested(.refused, version, now: .seconds(12))
    #expect(policy.suspected(version, now: .seconds(12)) == .ours)
    guard case .mint(let fresh) = policy.unauthorized(version, isRetry: false, now: .seconds(12)) else {
      Issue.record("not made")
      return
    }
    #expect(policy.suspected(version, now: .seconds(13)) == .ours)
    #expect(policy.suspected(fresh, now: .seconds(13)) == .askTest, "the fresh one is another matter")
  }

  @Test("a 401 of the catalog takes the trust away")
  func distrust() {
    var policy = RemintPolicy()
    let version = policy.current
    policy.accepted(version, now: .zero)
    _ = policy.unauthorized(version, isRetry: false, now: .seconds(1))
    #expect(policy.suspected(version, now: .seconds(1)) == .ours)
  }

  @Test("what /v1/test cannot say counts as the user's for a moment, so that not everybody asks in turn")
  func inconclusive() {
    var policy = RemintPolicy()
    let version = policy.current
    #expect(policy.suspected(version, now: .zero) == .askTest)
    policy.tested(.inconclusive, version, now: .seconds(1))
    #expect(policy.suspected(version, now: .milliseconds(1500)) == .theirs)
    #expect(policy.suspected(version, now: .seconds(2)) == .askTest)
  }

  @Test("a test that nobody hears of is asked again")
  func lostTest() {
    var policy = RemintPolicy()
    #expect(policy.suspected(policy.current, now: .zero) == .askTest)
    #expect(policy.suspected(policy.current, now: .milliseconds(4999)) == .wait(.milliseconds(50)))
    #expect(policy.suspected(policy.current, now: .seconds(5)) == .askTest)
  }
}
