extension QuotaScript {
  /// What a replica reports, and what it gets.
  package static let settlement: StaticString = """
    -- The replicas. One that has not settled for a second does not count.
    local count, inFlight, demand, free = 1, 0, 0, 0
    for name, other in pairs(s.members) do
      if not (math.abs(now - other.at) <= 1) then
        s.members[name] = nil
      elseif name ~= id then
        count, inFlight, free = count + 1, inFlight + other.inFlight, free - math.max(other.held, other.inFlight)
        demand = demand + other.inFlight + other.waiting
      end
    end
    local me = s.members[id]
    if not me then
      me = {done = -1, grown = -1, weight = 0, parts = ''}
      if count <= 1024 then s.members[id] = me end
    end
    me.at = now

    -- What the replica knows counts if the store has lost it, or if the replica has learned a lower rate while it was alone.
    local known, isLearned = number(ARGV[5], 0, 5000), ARGV[6] == '1'
    if known > 0 and (isLearned or now - s.born < 1) and (s.rate == 0 or known < s.rate) then
      hold(known)
      s.window, s.search = math.max(s.window, number(ARGV[7], 1, 60)), 0
      s.confirmed = isLearned and math.max(s.confirmed, s.rate) or s.rate
      s.guess, s.credit, s.strikes, s.testing, s.streakAt, s.level, s.complete = 0, 0, 0, 0, 0, 0, now
    end

    -- The report. What an earlier one had is in it again if its reply was lost.
    local done, hasNews = me.done, false
    for kind, serial, age, a, b, n in string.gmatch(ARGV[4], '(%a)(%d+),(%d+),(%d+),(%-?%d+),(%d+)') do
      local time = now - age / 10000
      serial, a, b, n = tonumber(serial), tonumber(a), tonumber(b), clamp(tonumber(n), 1, 4096)
      if serial > done and time > now - 2 then
        me.done = math.max(me.done, serial)
        if kind == 's' then
          sent(time, n, clamp(b, 0, n))
        elseif kind == 'a' then
          answered(n, now - a / 10000, clamp((a - age) / 10000, 0.001, 60))
        elseif kind == 'r' and #s.pending < 64 then
          s.pending[#s.pending + 1] = {now - a / 10000, b < 0 and -1 or math.min(b / 1000, 60), n, time}
          if s.judge == 0 then
            s.judge, hasNews = now + (count > 1 and 0.03 or 0), true
          end
        end
      end
    end
    -- A 429 is judged when the others have reported what they sent before it.
    if s.judge > 0 and now >= s.judge then
      table.sort(s.pending, function(a, b) return (a[4] or 0) < (b[4] or 0) end)
      for _, event in ipairs(s.pending) do refused(event[1], event[2], event[3]) end
      s.pending, s.judge = {}, 0
    end
    local pauseEnds = s.pauseEnds
    if s.judge > 0 then
      pauseEnds = math.max(pauseEnds, s.judge + (s.rate == 0 and 0.5 or 0.005))
      for _, event in ipairs(s.pending) do pauseEnds = math.max(pauseEnds, now + math.min(event[2], 60)) end
    end
    if hasNews then redis.pcall('PUBLISH', ARGV[2], ARGV[3]) end

    -- The requests in flight: half equally, the rest by demand. A part grows only by what no other replica has.
    local grown = number(ARGV[11], 0, 4294967295)
    me.inFlight, me.waiting = number(ARGV[8], 0, 65535), number(ARGV[9], 0, 65535)
    local held = math.max(number(ARGV[10], 0, 65535), me.inFlight)
    inFlight, demand = inFlight + me.inFlight, demand + me.inFlight + me.waiting
    if me.grown >= 0 and grown > me.grown and 2 * inFlight >= s.limit then
      s.limit = s.limit + math.min(grown - me.grown, 400)
    end
    me.grown, s.limit = grown, math.min(s.limit, maximum)
    free = free + s.limit
    local least = math.max(math.floor(s.limit / (2 * count)), 1)
    local spare = math.max(s.limit - count * least, 0)
    local part = least + math.floor(demand > 0 and spare * (me.inFlight + me.waiting) / demand or spare / count)
    if part > held then part = math.max(math.min(part, math.max(free, held)), 1) end
    me.held = math.max(part, held)

    -- The turns by demand, ten times a second: clients that wait share them equally, each up to its share. A client's turns
    -- go to the replicas where its requests wait.
    me.demands = string.sub(ARGV[17], 1, 2048)
    if not (now - s.divided < 0.1 and now >= s.divided) then
      s.divided = now
      local clients, order = {}, {}
      for _, other in pairs(s.members) do
        for name, waiting, share in string.gmatch(other.demands, '(%x+),(%d+),(%d+)') do
          if not clients[name] then
            clients[name] = {waiting = 0, share = math.min(share / 10000, 1)}
            order[#order + 1] = clients[name]
          end
          clients[name].waiting = clients[name].waiting + waiting
        end
      end
      table.sort(order, function(a, b) return a.share < b.share end)
      local rest = 1
      for i, client in ipairs(order) do
        client.part = math.min(client.share, rest / (#order - i + 1))
        rest = rest - client.part
      end
      for _, other in pairs(s.members) do
        local weight, parts = 0, {}
        for name, waiting in string.gmatch(other.demands, '(%x+),(%d+),%d+') do
          local fraction = waiting / math.max(clients[name].waiting, 1)
          weight = weight + clients[name].part * fraction
          parts[#parts + 1] = name .. ',' .. math.floor(fraction * 1000000)
        end
        other.weight, other.parts = #order == 0 and 1 / count or math.min(weight, 1), table.concat(parts, ';')
      end
    end

    -- The turns: a line at the team's pace, from which each takes the next ones.
    local turns, ahead, start, interval, pace = number(ARGV[15], 0, 65535), number(ARGV[16], 0, 1), now, 0, s.pace
    if s.testing == 1 then pace = math.min(pace, 1 / math.max(4 * s.latency, 0.5)) end
    if s.rate > 0 then
      interval = 1 / pace
      -- The line is never longer, unless it is what another program has written.
      start = math.max(math.min(s.line, math.max(pauseEnds, now + 0.1 + interval)), now - 0.025, pauseEnds)
      turns = start > now + ahead and 0 or math.min(turns, math.floor((now + ahead - start) / interval) + 1)
      s.line = start + turns * interval
    else
      turns, pace = 0, 0
    end
    local kept = redis.pcall('SET', KEYS[1], cmsgpack.pack(s), 'PX', 60000)
    if kept.err then return kept end
    local function micro(value) return math.floor(value * 1000000) end
    return {
      turns, micro(start - now), micro(interval), micro(s.rate), micro(pace), micro(math.max(pauseEnds - now, 0)), part,
      s.limit, micro(me.weight), s.window, count, me.parts,
    }
    end)
    if isDone then return reply end
    -- The error comes from what the script has not written.
    redis.call('DEL', KEYS[1])
    return redis.error_reply('ERR ' .. tostring(reply))
    """
}
