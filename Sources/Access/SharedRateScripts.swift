/// The scripts that the store runs for the rates of a group, in Lua 5.1.
///
/// A bucket is a key with the moment when it is full, in microseconds of the store's clock, and expires a second after
/// that. Its name is the first key of a script, followed by the eight bytes of the ID. All numbers are whole and below
/// 2^53, so Lua counts them exactly. Scripts do not change a key with another kind of value, another program's.
package enum SharedRateScripts {
  /// Settles a replica's buckets once, and publishes their debts.
  ///
  /// Keys: the beginning of the names of buckets. Arguments: the replica, the number of the settlement, the channel, the
  /// beginning of the message, and ``RateSettlement/buckets``.
  ///
  /// Reply: ``RateDebts``. A debt is -1 if the key is another program's.
  package static let settlement: StaticString = """
    local base, buckets = KEYS[1], ARGV[5]
    local time = redis.call('TIME')
    local now = time[1] * 1000000 + time[2]
    local names = {}
    for at = 1, #buckets, 32 do names[#names + 1] = base .. string.sub(buckets, at, at + 7) end
    local done = base .. 'settled:' .. ARGV[1]
    local isNew = redis.call('GET', done) ~= ARGV[2]
    if isNew then redis.call('SET', done, ARGV[2], 'PX', 60000) end
    local stored = redis.call('MGET', unpack(names))
    local debts = {}
    for index, name in ipairs(names) do
      local id, cost, ahead, most = struct.unpack('<c8i8i8i8', buckets, index * 32 - 31)
      local old = tonumber(stored[index] or 0)
      local debt = -1
      if old then
        if not (old <= now + most) then old = now + most end
        local full = math.max(old + cost, now + ahead)
        debt = math.max(full - now, 0)
        if isNew and full > old then
          local value, life = string.format('%.0f', full), string.format('%.0f', math.ceil(debt / 1000) + 1000)
          if stored[index] then
            redis.call('SET', name, value, 'PX', life)
          elseif not redis.call('SET', name, value, 'PX', life, 'NX') then
            debt = -1
          end
        end
      end
      debts[index] = struct.pack('<c8i8', id, debt)
    end
    local message = table.concat(debts)
    if isNew then redis.pcall('PUBLISH', ARGV[3], ARGV[4] .. message) end
    return message
    """

  /// Takes a token of all given buckets, or of none, and publishes their debts.
  ///
  /// Keys: the names of the buckets. Arguments: the channel, the beginning of the message, and ``StrictTake/buckets``.
  ///
  /// Reply: 1 if the tokens are taken, else 0; and the debt of each bucket before, in microseconds. A debt beyond the
  /// largest, as after the store's clock went back, is lowered at the store as well: only then it is repaid.
  package static let strict: StaticString = """
    local time = redis.call('TIME')
    local now = time[1] * 1000000 + time[2]
    local reply, taken = {1}, {}
    for index, name in ipairs(KEYS) do
      local id, interval, room, most, known = struct.unpack('<c8i8i8i8i8', ARGV[3], index * 40 - 39)
      local old = tonumber(redis.call('GET', name) or 0)
      if not old then return redis.error_reply('WRONGTYPE This key is no bucket') end
      local debt = math.max(old - now, 0)
      if not (debt <= most) then
        debt = most
        redis.call(
          'SET', name, string.format('%.0f', now + most), 'PX', string.format('%.0f', math.ceil(most / 1000) + 1000))
      end
      debt = math.max(debt, known)
      if debt > room then reply[1] = 0 end
      reply[index + 1] = debt
      taken[index] = {id, debt + interval}
    end
    if reply[1] == 1 then
      local debts = {}
      for index, name in ipairs(KEYS) do
        local id, debt = unpack(taken[index])
        redis.call(
          'SET', name, string.format('%.0f', now + debt), 'PX', string.format('%.0f', math.ceil(debt / 1000) + 1000))
        debts[index] = struct.pack('<c8i8', id, debt)
      end
      redis.pcall('PUBLISH', ARGV[1], ARGV[2] .. table.concat(debts))
    end
    return reply
    """
}
