// MusicKit for Swift with the tokens of this server, for platforms and targets where MusicKit's own tokens do not work.
// At the start of the app: MusicDataRequest.tokenProvider = ServerTokenProvider(tokens)
@preconcurrency import MusicKit

/// Gives MusicKit the developer tokens of `DeveloperTokens`, the recipe for iOS. Apple's class gets the user tokens.
final class ServerTokenProvider: MusicUserTokenProvider, MusicDeveloperTokenProvider {
  private let tokens: DeveloperTokens

  init(_ tokens: DeveloperTokens) { self.tokens = tokens }

  func developerToken(options: MusicTokenRequestOptions) async throws -> String {
    try await tokens.token()
  }
}
