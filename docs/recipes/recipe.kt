// The client's settings: docs/clients.md, "Apps".
/** Keeps a valid token. Use one for the whole app: concurrent callers share one request. */
class DeveloperTokens(private val client: OkHttpClient) {
  private val mutex = Mutex()
  private var held: JSONObject? = null

  /** Returns a valid token. Throws only without a valid one. Any thread may call it, the main thread too. */
  suspend fun token(): String = mutex.withLock {
    val now = System.currentTimeMillis() / 1000
    val old = held
    if (old != null && now < old.getLong("refreshAfter")) return old.getString("token")
    val current = try {
      withContext(Dispatchers.IO) { request() }
    } catch (error: CancellationException) {
      throw error
    } catch (error: Exception) {
      if (old == null || now > old.getLong("expiresAt") - 60) throw error
      old.put("refreshAfter", now + 60)  // the token still works: try again in a minute
    }
    held = current
    current.getString("token")
  }

  private suspend fun request(): JSONObject {
    val appCheck = Firebase.appCheck.getAppCheckToken(false).await().token  // or your users' JWT
    val request = Request.Builder().url("https://tokens.example.com/token")
      .header("Authorization", "Bearer $appCheck").build()
    return client.newCall(request).execute().use { response ->
      val text = response.body!!.string()
      if (!response.isSuccessful) throw IOException(text)  // says what is wrong
      JSONObject(text)
    }
  }
}
