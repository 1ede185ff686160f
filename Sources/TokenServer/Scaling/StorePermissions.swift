package import EventLoop
package import Redis
package import ServerSettings

/// The least permissions (ACL) of the server's user at the store with which everything works.
package enum StorePermissions {
  /// The commands that the server sends, alone or in scripts, beside HELLO and AUTH, which every user may send.
  static let commands = [
    "append", "del", "eval", "evalsha", "get", "mget", "pexpire", "ping", "pttl", "publish", "select", "set", "strlen",
    "subscribe", "time", "zadd", "zcard", "zrange", "zrem", "zremrangebyscore",
  ]

  /// The rules of the user for ACL SETUSER, without its password.
  package static func rules(prefix: String) -> String {
    let allowed = commands.map { "+\($0)" }.joined(separator: " ")
    return "resetkeys ~{\(prefix)}:* resetchannels &{\(prefix)}:events -@all \(allowed)"
  }

  /// Returns the configuration of a client that tries the commands: one that has the messages of the channel.
  package static func configuration(_ settings: Settings.Shared, _ files: StoreFiles) -> RedisClient.Configuration {
    var configuration = RedisClient.Configuration(settings, files)
    configuration.channel = ReplicaGroup.key("events", prefix: settings.keyPrefix)
    return configuration
  }

  /// Runs each command of the scripts on a key that it removes again. Reply: the refused ones, each with its error.
  package static func tryCommands(
    on client: RedisClient, prefix: String, until deadline: Deadline, _ completion: @escaping RedisClient.Completion
  ) {
    client.run(
      trial, keys: [ReplicaGroup.key("doctor", prefix: prefix)],
      arguments: [ReplicaGroup.key("events", prefix: prefix), GroupMessage.header(.cache, from: 0)], until: deadline,
      completion)
  }

  /// The script of the trial. Arguments: the channel, and a message that replicas ignore.
  private static let trial = RedisScript(
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
