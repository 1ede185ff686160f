/** The version of the server that this module belongs to. */
export declare const version: string;

export interface DeveloperTokensOptions {
  /**
   * Where the server gives tokens, absolute or relative to the module's own address. Parameters are allowed:
   * `"token?ttl=3600"`. Default: `"token"`, on the server that the module comes from.
   */
  url?: string | URL;
  /**
   * Header fields for each request, such as the JWT of a signed-in user. A function is called before each request, so it
   * can return a fresh JWT.
   */
  headers?: HeadersInit | (() => HeadersInit | undefined | Promise<HeadersInit | undefined>);
  /** The longest time for one request, in milliseconds. Default: 10 000. */
  timeout?: number;
}

/**
 * The developer token of a page, or of a program for Node. One object serves all of it: it keeps the token in memory, has at most one request
 * in flight, and gets the next token at `refreshAfter` plus a random delay.
 *
 * The clock of the device may be wrong, and may jump. The object measures durations only, by the server's clock.
 */
export declare class DeveloperTokens {
  constructor(options?: DeveloperTokensOptions);

  /**
   * Returns a valid token: at once if there is one, otherwise after a request. Concurrent callers share one request.
   *
   * While a token is valid, failed requests do not reject: they are repeated later, and `subscribe` reports them. Without
   * a valid token the promise rejects with a `TokenError`. Until the time for the next attempt has come, it rejects with
   * the error of the last one and sends nothing.
   *
   * `signal` ends the wait of this caller with the signal's reason. The shared request goes on.
   */
  get(options?: { signal?: AbortSignal }): Promise<string>;

  /**
   * Requests a token now, for example after the user has signed in. Rejects with a `TokenError` if none comes, and sends
   * nothing before the end of a `Retry-After`. The server gives the same token until half of its life has passed.
   */
  refresh(): Promise<string>;

  /**
   * Calls `onToken` with each token that differs from the last one, and `onError` after each failed attempt.
   *
   * @returns A function that ends this.
   */
  subscribe(onToken?: (token: string) => void, onError?: (error: unknown) => void): () => void;

  /** Ends requests, timers and subscriptions, and drops the token. All later calls reject. */
  stop(): void;

  /**
   * Waits until MusicKit JS is loaded, configures it with a valid token, and returns its instance.
   *
   * An instance of MusicKit JS keeps its token. So for a new token there is a new instance, which does not play and has an
   * empty queue. The change waits until no music plays and the queue is empty, or no music plays and the token of the
   * present instance expires. Then `onReplace` gets the new instance and the previous one: add your event listeners to
   * the new one, and set its queue again. `MusicKit.getInstance()` returns the new one.
   *
   * @param configuration All that `MusicKit.configure` takes, except `developerToken`.
   * @param options `signal` ends the wait for MusicKit JS and for the first token.
   */
  configureMusicKit<Instance = any>(
    configuration: { app: { name: string; build?: string; [member: string]: unknown }; [member: string]: unknown },
    options?: { onReplace?: (instance: Instance, previous: Instance) => void; signal?: AbortSignal },
  ): Promise<Instance>;
}

/** The reason why there is no token. `message` says it in a sentence. It never contains a token. */
export declare class TokenError extends Error {
  constructor(message: string, facts?: Partial<Omit<TokenError, "name" | "message" | "stack">>);
  readonly name: "TokenError";
  /** The status of the response; absent if there was no response that the page may read. */
  readonly status?: number;
  /** The server's error code, such as `origin_not_allowed`. */
  readonly code?: string;
  /** The server's own explanation. */
  readonly detail?: string;
  /** What finds the request in the server's log. */
  readonly requestId?: string;
  /** The number of seconds in which the server wants no request. */
  readonly retryAfter?: number;
  /** Whether the server refuses this page, so that only a change helps. The object does not repeat the request by itself. */
  readonly final: boolean;
  readonly cause?: unknown;
}
