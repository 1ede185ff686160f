import Redis

/// What the server's user may have to do at the store: the least permissions (ACL) with which everything works.
enum StorePermissions {
  /// The commands that the server sends, alone or in scripts, beside HELLO and AUTH, which every user may send.
  static let commands = [
    "append", "del", "eval", "evalsha", "get", "mget", "pexpire", "ping", "pttl", "publish", "select", "set", "strlen",
    "subscribe", "time", "zadd", "zcard", "zrange", "zrem", "zremrangebyscore",
  ]

  /// The rules of the user for ACL SETUSER, without its password.
  static func rules(prefix: String) -> String {
    let allowed = commands.map { "+\($0)" }.joined(separator: " ")
    return "resetkeys ~{\(prefix)}:* resetchannels &{\(prefix)}:events -@all \(allowed)"
  }

  /// Runs each command of the server's scripts on a key that it removes again, and returns the refused ones: the command
  /// and the error in turn. Arguments: the channel, and a message that replicas ignore.
  static let trial = RedisScript(
    """
    local refused = {}
    local function try(name, ...)
      local reply = redis.pcall(name, ...)
      if type(reply) ~= 'table' or not reply.err then return end
      refused[#refused + 1] = name
      refused[#refused + 1] = reply.err
    end
    local key = KEYS[1]
    try('time')
    try('set', key, '', 'PX', 10000)
    try('append', key, '+')
    try('get', key)
    try('mget', key)
    try('strlen', key)
    try('pttl', key)
    try('pexpire', key, 10000)
    try('del', key)
    try('zadd', key, 1, 'a')
    try('zremrangebyscore', key, '-inf', 0)
    try('zcard', key)
    try('zrange', key, 0, 1)
    try('zrem', key, 'a')
    try('publish', ARGV[1], ARGV[2])
    return refused
    """)
}
