// Keeps a valid Apple Music developer token in a web page, or in a program for Node 18 and later. musickit-token.d.ts
// describes what it exports.

/** The version of the server that this module belongs to. */
export const version = "0.1.0";

const second = 1000;
const minute = 60 * second;
// No timer is longer: after sleep it notices within a minute that a token is due, and 2^31 ms is out of reach.
const longestTimer = minute;
const longestBackoff = 5 * minute;
const longestRetryAfter = 60 * minute;
const statesAtRest = [0, 3, 4, 10];  // of MusicKit.PlaybackStates: none, paused, stopped, completed

export class TokenError extends Error {
  constructor(message, { cause, ...facts } = {}) {
    super(message, { cause });
    Object.assign(this, { name: "TokenError", final: false }, facts);
  }
}

/**
 * Milliseconds, never fewer than have passed. In sleep performance.now() may stop, and Date.now() jumps when the clock is
 * set, so each step is the longer one of the two. A clock that jumps ahead costs one early request.
 */
function stopwatch() {
  let elapsed = 0, date = Date.now(), ticks = performance.now();
  return () => {
    const newDate = Date.now(), newTicks = performance.now();
    elapsed += Math.max(newDate - date, newTicks - ticks, 0);
    [date, ticks] = [newDate, newTicks];
    return elapsed;
  };
}

/** The promise, or a rejection as soon as the signal aborts. */
function abortable(promise, signal) {
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort);
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}

/** The error of a response without a token. */
function refusal({ status, headers }, content) {
  const { code, detail, title = "It gives no reason.", id } = content?.errors?.[0] ?? {};
  const requestId = id ?? headers.get("X-Request-ID") ?? undefined;
  const facts = [[status, code].filter(Boolean).join(" "), requestId && `request ${requestId}`].filter(Boolean);
  return new TokenError(`The server gives no developer token. ${detail ?? title} (${facts.join(", ")})`, {
    status, code, detail, requestId,
    retryAfter: Number(headers.get("Retry-After")) || undefined,
    final: status < 500 && status !== 408 && status !== 429,
  });
}

export class DeveloperTokens {
  #url;
  #headers;
  #timeout;
  #now = stopwatch();
  #held;  // the token, and when on the stopwatch it is due for a refresh and ceases to be valid
  #failure;  // the error of the latest request
  #failures = 0;  // in a row
  #retryAt = 0;
  #request;  // the one in flight
  #timer;
  #subscribers = new Set();
  #end = new AbortController();

  constructor({ url = "token", headers, timeout = 10 * second } = {}) {
    this.#url = new URL(url, import.meta.url);
    if (!this.#url.protocol.startsWith("http")) {
      throw new TokenError(
        `DeveloperTokens needs the address of the server: { url: "https://…/token" }, not ${this.#url}.`, { final: true });
    }
    this.#headers = async () => {
      try {
        return typeof headers === "function" ? await headers() : headers;
      } catch (cause) {
        throw new TokenError(`The page could not make the headers of its request: ${cause?.message}`, { cause });
      }
    };
    this.#timeout = timeout;
    const { signal } = this.#end;
    const check = () => this.#check();
    globalThis.document?.addEventListener("visibilitychange", check, { signal });
    globalThis.addEventListener?.("pageshow", check, { signal });
    globalThis.addEventListener?.("online", () => this.#online(), { signal });
  }

  get({ signal } = {}) {
    return abortable(this.#get(), signal);
  }

  async #get() {
    this.#end.signal.throwIfAborted();
    const now = this.#now();
    const valid = now < this.#held?.validUntil && this.#held.token;
    if (valid && now < this.#held.refreshAt) return valid;
    const mayAsk = this.#request || now >= this.#retryAt;
    const request = mayAsk && this.#refresh();
    if (valid) return valid;
    if (!mayAsk) throw this.#failure;
    const token = await request;
    // The device may have slept before it read the response.
    return this.#now() < this.#held?.validUntil ? token : this.#refresh();
  }

  async refresh() {
    this.#end.signal.throwIfAborted();
    if (this.#failure?.retryAfter && this.#now() < this.#retryAt) throw this.#failure;
    return this.#refresh();
  }

  subscribe(onToken, onError) {
    const subscriber = { onToken, onError };
    this.#subscribers.add(subscriber);
    return () => void this.#subscribers.delete(subscriber);
  }

  stop() {
    this.#end.abort(new TokenError("The page has stopped its DeveloperTokens.", { final: true }));
    clearTimeout(this.#timer);
    this.#subscribers.clear();
    this.#held = undefined;
  }

  async configureMusicKit(configuration, { onReplace, signal } = {}) {
    const loaded = globalThis.MusicKit
      ? Promise.resolve()
      : new Promise((resolve) => document.addEventListener("musickitloaded", resolve, { once: true }));
    await abortable(abortable(loaded, this.#end.signal), signal);
    let music, used, failed, isBusy = false;

    const configure = async (options) => {
      await this.get(options);
      const held = this.#held;
      const instance = await MusicKit.configure({ ...configuration, developerToken: held.token });
      music?.removeEventListener("playbackStateDidChange", changed);
      used = held;
      music = instance;
      music.addEventListener("playbackStateDidChange", changed);
    };

    // MusicKit JS takes a new token only with a new instance, and that one has an empty queue and does not play.
    const replace = async () => {
      if (isBusy || !this.#held || [used.token, failed].includes(this.#held.token)) return;
      if (music.isPlaying || !statesAtRest.includes(music.playbackState)) return;
      if (music.queue?.length && this.#now() < used.validUntil) return;
      isBusy = true;
      const previous = music;
      try {
        await configure();
        onReplace?.(music, previous);
      } catch (error) {
        failed = this.#held?.token;
        this.#tell("onError", error);
      } finally {
        isBusy = false;
      }
    };

    const changed = () => {
      failed = undefined;
      replace();
    };

    await configure({ signal });
    this.#subscribers.add({ onCheck: replace });
    return music;
  }

  #tell(name, value) {
    for (const subscriber of [...this.#subscribers]) {
      try {
        subscriber[name]?.(value);
      } catch (error) {
        (globalThis.reportError ?? console.error)(error);  // Node has no reportError
      }
    }
  }

  /** Sends a request, unless one is in flight. */
  #refresh() {
    if (!this.#request) {
      clearTimeout(this.#timer);
      this.#request = this.#ask().then((answer) => this.#accept(answer)).catch((error) => this.#fail(error));
      // An error that no caller waits for goes to the subscribers.
      this.#request.catch(() => {});
    }
    return this.#request;
  }

  #accept({ token, sent, life, due }) {
    this.#end.signal.throwIfAborted();
    const isNew = token !== this.#held?.token;
    // All pages with this token have the same refreshAfter, so each adds a random part of the time that is left then.
    const wait = Math.min(Math.max(due, 10 * second), life) + Math.random() * Math.max(life - due, 0) / 4;
    this.#held = { token, refreshAt: sent + wait, validUntil: sent + life - Math.min(minute, life / 4) };
    this.#request = this.#failure = undefined;
    this.#failures = this.#retryAt = 0;
    this.#check();
    if (isNew) this.#tell("onToken", token);
    return token;
  }

  #fail(error) {
    this.#end.signal.throwIfAborted();
    this.#request = undefined;
    this.#failure = error;
    const backoff = Math.min(second * 2 ** this.#failures++, longestBackoff) / 2;
    const least = error.retryAfter ? Math.min(error.retryAfter * second, longestRetryAfter) : backoff;
    this.#retryAt = this.#now() + least + Math.random() * Math.max(backoff, least / 4);
    this.#check();
    this.#tell("onError", error);
    throw error;
  }

  /** Sends a request if it is time; otherwise looks again later. */
  #check() {
    clearTimeout(this.#timer);
    this.#tell("onCheck");
    if (this.#request || this.#failure?.final || this.#end.signal.aborted) return;
    const wait = (this.#failure ? this.#retryAt : this.#held?.refreshAt) - this.#now();
    if (wait <= 0) this.#refresh();
    else if (wait > 0) {
      this.#timer = setTimeout(() => this.#check(), Math.min(wait, longestTimer));
      this.#timer.unref?.();  // of Node: it ends a program that has nothing else to do
    }
  }

  /** A connection that failed is tried at once, but a Retry-After of the server stands. */
  #online() {
    if (this.#failure && !this.#failure.status) {
      this.#retryAt = Math.min(this.#retryAt, this.#now() + Math.random() * 2 * second);
    }
    this.#check();
  }

  async #ask() {
    const sent = this.#now();
    const place = this.#url.origin + this.#url.pathname;
    const abort = new AbortController();
    const end = () => abort.abort(this.#end.signal.reason);
    this.#end.signal.addEventListener("abort", end);
    const timer = setTimeout(
      () => abort.abort(new TokenError(`${place} has not responded within ${this.#timeout} ms.`)), this.#timeout);
    try {
      const { response, content } = await abortable(this.#exchange(abort.signal), abort.signal);
      if (!response.ok) throw refusal(response, content);
      const { token, expiresIn, expiresAt, refreshAfter } = content ?? {};
      // By the server's own clock, because the clock of this device may be wrong.
      const due = refreshAfter - (expiresAt - expiresIn);
      if (typeof token !== "string" || !(expiresIn > 0) || !(due < Infinity)) {
        throw new TokenError(`The response of ${place} is no developer token.`, { status: response.status });
      }
      return { token, sent, life: expiresIn * second, due: due * second };
    } catch (cause) {
      if (cause instanceof TokenError) throw cause;
      const isPage = globalThis.origin !== undefined;
      throw new TokenError(
        isPage ? `${place} cannot be reached, or does not allow pages of ${globalThis.origin}.`
          : `${place} cannot be reached: ${cause?.cause?.message ?? cause?.message}.`, { cause });
    } finally {
      clearTimeout(timer);
      this.#end.signal.removeEventListener("abort", end);
    }
  }

  async #exchange(signal) {
    const headers = await this.#headers();
    // Browsers send no Origin with a GET to the page's own origin.
    const method = this.#url.origin === globalThis.location?.origin ? "POST" : "GET";
    const response = await fetch(this.#url, { method, headers, signal, cache: "no-store" });
    const text = await response.text();
    try {
      return { response, content: JSON.parse(text) };
    } catch {
      return { response };  // of a proxy, for example
    }
  }
}
