import Testing

@testable import UpstreamAdmission

@Suite struct TokenRefreshPolicyTests {
  @Test("a refused token is replaced once, and every request refused with the old token tries the new one")
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

  @Test("after the new token is refused as well, tokens are minted only at intervals")
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

  @Test("a request is retried only once, and a refusal of an old token does not reject the current token")
  func onlyOnce() {
    var policy = TokenRefreshPolicy()
    let old = policy.current
    _ = policy.renewed(isUnjudged: false)
    #expect(policy.unauthorized(old, isRetry: true, now: .zero) == .exhausted)
    policy.rejected(old)
    #expect(!policy.isDegraded)
    #expect(policy.unauthorized(policy.current, isRetry: true, now: .zero) == .exhausted)
  }

  @Test("a rejection ends with the first request that accepts the current token")
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

  @Test("a token of another key or clock may be replaced immediately")
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

  @Test("one request checks a suspected token, and the others wait for the result")
  func suspicion() {
    var policy = TokenRefreshPolicy()
    let version = policy.current
    #expect(policy.suspected(version, now: .zero) == .askTest)
    #expect(policy.suspected(version, now: .milliseconds(100)) == .wait(.milliseconds(50)))
    policy.tested(.accepted, version, now: .milliseconds(200))
    #expect(policy.suspected(version, now: .milliseconds(250)) == .accepted)
    #expect(policy.suspected(version, now: .milliseconds(10_200)) == .askTest, "trust does not last")
  }

  @Test("a token that the catalog accepts is trusted without a check at /v1/test")
  func trusted() {
    var policy = TokenRefreshPolicy()
    policy.accepted(policy.current, now: .zero)
    #expect(policy.suspected(policy.current, now: .seconds(9)) == .accepted)
    #expect(!policy.isDegraded)
  }

  @Test("a token that /v1/test refuses counts as refused for ten seconds, and a new token is checked again")
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

  @Test("a token that has a successor is judged itself if its request cannot be sent again")
  func succeeded() {
    var policy = TokenRefreshPolicy()
    let version = policy.current
    guard case .mint = policy.unauthorized(version, isRetry: false, now: .zero) else {
      Issue.record("not made")
      return
    }
    #expect(policy.suspected(version, now: .seconds(1)) == .refused)
    #expect(policy.suspected(version, mayResend: false, now: .seconds(1)) == .askTest)
  }

  @Test("a token that is accepted after /v1/test refused it is trusted again")
  func cleared() {
    var policy = TokenRefreshPolicy()
    let version = policy.current
    policy.tested(.refused, version, now: .zero)
    policy.rejected(version)
    policy.accepted(version, now: .seconds(1))
    #expect(!policy.isDegraded)
    #expect(policy.suspected(version, now: .seconds(1)) == .accepted)
  }

  @Test("a 401 that leads to a new token ends the trust")
  func distrust() {
    var policy = TokenRefreshPolicy()
    policy.accepted(policy.current, now: .zero)
    _ = policy.unauthorized(policy.current, isRetry: false, now: .seconds(1))
    #expect(policy.suspected(policy.current, now: .seconds(1)) == .askTest)
  }

  @Test("an inconclusive check is not repeated for a second")
  func inconclusive() {
    var policy = TokenRefreshPolicy()
    let version = policy.current
    #expect(policy.suspected(version, now: .zero) == .askTest)
    policy.tested(.unknown, version, now: .seconds(1))
    #expect(policy.suspected(version, now: .milliseconds(1500)) == .unknown)
    #expect(policy.suspected(version, now: .seconds(2)) == .askTest)
  }

  @Test("a cancelled check is repeated immediately, and a check without a result after five seconds")
  func lostTest() {
    var policy = TokenRefreshPolicy()
    #expect(policy.suspected(policy.current, now: .zero) == .askTest)
    policy.tested(.abandoned, policy.current, now: .seconds(1))
    #expect(policy.suspected(policy.current, now: .seconds(1)) == .askTest)
    #expect(policy.suspected(policy.current, now: .milliseconds(5999)) == .wait(.milliseconds(50)))
    #expect(policy.suspected(policy.current, now: .seconds(6)) == .askTest)
  }
}
