import Testing

@testable import UpstreamAdmission

@Suite struct TokenRefreshPolicyTests {
  @Test("a refused token is made anew once, and whoever was refused with the old one tries the new one")
  func once() {
    var policy = TokenRefreshPolicy()
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

  @Test("when the fresh token is refused, too, no other is made for a while")
  func rejected() {
    var policy = TokenRefreshPolicy()
    _ = policy.unauthorized(policy.current, isRetry: false, now: .zero)
    #expect(policy.unauthorized(policy.current, isRetry: true, now: .milliseconds(1)) == .exhausted)
    #expect(!policy.isDegraded, "a 401 alone proves nothing")
    policy.rejected(policy.current)
    #expect(policy.isDegraded)
    var minted = 0
    for second in 1...300 {
      for _ in 0..<100 {
        if case .mint = policy.unauthorized(policy.current, isRetry: false, now: .seconds(second)) { minted += 1 }
      }
    }
    #expect(minted == 10 && policy.isDegraded)
  }

  @Test("a request is sent again once only, and an old token says nothing about the current one")
  func onlyOnce() {
    var policy = TokenRefreshPolicy()
    let old = policy.current
    _ = policy.renewed(isUnjudged: false)
    #expect(policy.unauthorized(old, isRetry: true, now: .zero) == .exhausted)
    policy.rejected(old)
    #expect(!policy.isDegraded)
    #expect(policy.unauthorized(policy.current, isRetry: true, now: .zero) == .exhausted)
  }

  @Test("a rejection ends with the first request that the current token is good for")
  func recovery() {
    var policy = TokenRefreshPolicy()
    let old = policy.current
    _ = policy.unauthorized(old, isRetry: false, now: .zero)
    policy.rejected(policy.current)
    policy.accepted(old, now: .seconds(1))
    #expect(policy.isDegraded, "a late response to the old token says nothing about the current one")
    policy.accepted(policy.current, now: .seconds(1))
    #expect(!policy.isDegraded)
  }

  @Test("another key, or another clock, may be tried at once")
  func newKey() {
    var policy = TokenRefreshPolicy()
    _ = policy.unauthorized(policy.current, isRetry: false, now: .zero)
    let renewed = policy.renewed(isUnjudged: false)
    #expect(policy.unauthorized(renewed, isRetry: false, now: .seconds(1)) == .exhausted)
    let other = policy.renewed(isUnjudged: true)
    guard case .mint = policy.unauthorized(other, isRetry: false, now: .seconds(2)) else {
      Issue.record("not made")
      return
    }
  }

  @Test("a suspicion is looked into by one request, and the others wait for its result")
  func suspicion() {
    var policy = TokenRefreshPolicy()
    let version = policy.current
    #expect(policy.suspected(version, now: .zero) == .askTest)
    #expect(policy.suspected(version, now: .milliseconds(100)) == .wait(.milliseconds(50)))
    policy.tested(.accepted, version, now: .milliseconds(200))
    #expect(policy.suspected(version, now: .milliseconds(250)) == .accepted)
    #expect(policy.suspected(version, now: .milliseconds(10_200)) == .askTest, "trust does not last")
  }

  @Test("a token that the catalog accepts is above suspicion, and /v1/test is not asked")
  func trusted() {
    var policy = TokenRefreshPolicy()
    policy.accepted(policy.current, now: .zero)
    #expect(policy.suspected(policy.current, now: .seconds(9)) == .accepted)
    #expect(!policy.isDegraded)
  }

  @Test("a token that /v1/test refuses counts as refused for ten seconds, and a fresh one is another matter")
  func refused() {
    var policy = TokenRefreshPolicy()
    let version = policy.current
    policy.accepted(version, now: .zero)
    #expect(policy.suspected(version, now: .seconds(11)) == .askTest)
    policy.tested(.refused, version, now: .seconds(12))
    #expect(policy.suspected(version, now: .seconds(21)) == .refused)
    #expect(policy.suspected(version, now: .seconds(22)) == .askTest)
    policy.tested(.refused, version, now: .seconds(22))
    guard case .mint(let fresh) = policy.unauthorized(version, isRetry: false, now: .seconds(22)) else {
      Issue.record("not made")
      return
    }
    #expect(policy.suspected(version, now: .seconds(23)) == .refused)
    #expect(policy.suspected(fresh, now: .seconds(23)) == .askTest)
  }

  @Test("a token that is accepted after /v1/test refused it is cleared")
  func cleared() {
    var policy = TokenRefreshPolicy()
    let version = policy.current
    policy.tested(.refused, version, now: .zero)
    policy.rejected(version)
    policy.accepted(version, now: .seconds(1))
    #expect(!policy.isDegraded)
    #expect(policy.suspected(version, now: .seconds(1)) == .accepted)
  }

  @Test("a 401 that leads to a fresh token takes the trust away")
  func distrust() {
    var policy = TokenRefreshPolicy()
    policy.accepted(policy.current, now: .zero)
    _ = policy.unauthorized(policy.current, isRetry: false, now: .seconds(1))
    #expect(policy.suspected(policy.current, now: .seconds(1)) == .askTest)
  }

  @Test("what /v1/test cannot say is not asked again for a moment")
  func inconclusive() {
    var policy = TokenRefreshPolicy()
    let version = policy.current
    #expect(policy.suspected(version, now: .zero) == .askTest)
    policy.tested(.unknown, version, now: .seconds(1))
    #expect(policy.suspected(version, now: .milliseconds(1500)) == .unknown)
    #expect(policy.suspected(version, now: .seconds(2)) == .askTest)
  }

  @Test("a test that was cancelled is asked again at once, and one without a report after five seconds")
  func lostTest() {
    var policy = TokenRefreshPolicy()
    #expect(policy.suspected(policy.current, now: .zero) == .askTest)
    policy.tested(.abandoned, policy.current, now: .seconds(1))
    #expect(policy.suspected(policy.current, now: .seconds(1)) == .askTest)
    #expect(policy.suspected(policy.current, now: .milliseconds(5999)) == .wait(.milliseconds(50)))
    #expect(policy.suspected(policy.current, now: .seconds(6)) == .askTest)
  }
}
