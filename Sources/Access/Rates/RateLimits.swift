/// What the limiter allows itself, and those who guess.
public enum RateLimits {
  /// How often an address may present an invalid credential. Beyond that rate, the server answers 429 and not 401.
  ///
  /// A credential has 128 bits or more, so guessing is hopeless at any rate. The limit is for an app with a stale key
  /// that sends requests in a loop, and for the log that it fills. The burst of a hundred is for the many people behind
  /// one address whose app has no update yet.
  public static let failures = Rate(perSecond: 1, burst: 100)

  /// Callers that are remembered, 16 bytes each: as many addresses as ask within the time that a burst takes to come
  /// back, which is seconds mostly. 2 MiB.
  static let callers = 131_072
  /// Clients with a limit on all of their callers. Only ids of the configuration come here, which are a thousand at most;
  /// a table of their own, so that no flood of addresses can push a total out.
  static let clients = 16_384
  /// Addresses with failed attempts; apart, for the same reason. 1 MiB.
  static let failedAddresses = 65_536
}
