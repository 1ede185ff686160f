import Access
import DeveloperToken

/// What could be read of one element of `access.clients`, be the rest of it faulty or not: enough to see which others it
/// clashes with, and to open the files that it names. So one fault does not hide another.
struct ClientCandidate {
  var id: String?
  /// Of its API keys.
  var digests: [APIKeyDigest] = []
  /// Of its certificate.
  var names: [SubjectName] = []
  /// What it is known by; those that restrict another credential are not among them.
  var knownOrigins: [OriginPattern] = []
  /// The JWTs that it takes, if all that tells them from another client's could be read.
  var rules: JWTRules?
  /// The file with the keys of its identity provider.
  var keySetFile: String?
  /// Whether the keys of its identity provider are to be fetched.
  var fetchesKeySet = false
  /// How often it may ask.
  var rates: Rates?
  /// The authorities by which the provider is known; nil for the system's.
  var caFile: String?
}
