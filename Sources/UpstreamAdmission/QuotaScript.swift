/// The script that owns the team's quota at the store, in Lua 5.1: the learned rate and its window, the line of turns, the
/// pause after a 429, the limit of requests in flight, and what each replica has of these. Each replica runs it every
/// 100 ms, and when it needs turns or has met a 429.
///
/// Key: the state, one string in MessagePack. If the string is not what the script writes, the state begins again from what
/// the replicas know. Arguments: ``QuotaReport/arguments(of:channel:message:time:)``. Reply: ``QuotaReply``. The script
/// consists of ``learning`` and ``settlement``.
package enum QuotaScript {
  /// The state, and what requests and 429s show of the rate.
  package static let learning: StaticString = """
    local isDone, reply = pcall(function()
    local slots = 64
    local function clamp(value, least, most) return math.max(least, math.min(value, most)) end
    local function number(text, least, most)
      local value = tonumber(text) or 0
      return value >= least and value <= most and value or least
    end

    -- Tests give the time.
    local now = tonumber(ARGV[14] or '')
    if not now then
      local time = redis.call('TIME')
      now = time[1] + time[2] / 1000000
    end
    local id, maximum = ARGV[1], number(ARGV[13], 1, 65535)

    -- The state. Times are seconds of the store's clock, rates are requests a second.
    local fresh = {
      at = now, born = now, complete = now - 1, limit = number(ARGV[12], 1, 65535), divided = 0,
      rate = 0, pace = 1, window = 1, step = 0, count = 0, line = 0, latency = 0.1,
      pauseBegan = 0, pauseEnds = 0, asked = 0, judge = 0, since = 0, refusals = 0, firstSent = 0, perEvent = 1, credit = 0,
      search = 1, guess = 0, confirmed = 0, falls = 0, strikes = 0, testing = 0,
      level = 0, levelAt = now, total = 0, eventTotal = 0, eventAt = 0, streakAt = 0, streakRate = 0, blocked = 0,
      events = 0, blockEnd = 0, suspect = 0, fineAt = 0, coarseAt = 0,
      fine = {}, coarse = {}, members = {}, pending = {},
    }
    local function isState(state)
      if type(state) ~= 'table' then return false end
      for name, model in pairs(fresh) do
        local value = state[name]
        if type(value) ~= type(model) then return false end
        if type(value) == 'number' and not (math.abs(value) <= 1e15) then return false end
      end
      return #state.fine == slots and #state.coarse == slots and state.rate >= 0 and state.rate <= 5000
        and state.pace > 0.01 and state.window >= 1 and state.window <= 60 and state.latency > 0 and state.limit >= 1
        and state.perEvent >= 1 and state.step <= 64 and state.fineAt * 0.02 <= now + 2 and state.coarseAt <= now + 2
    end
    local stored = redis.pcall('GET', KEYS[1])
    local isRead, s = pcall(cmsgpack.unpack, type(stored) == 'string' and stored or '')
    if not isRead or not isState(s) then
      if type(stored) == 'table' then redis.pcall('DEL', KEYS[1]) end
      s = nil
    elseif now < s.at - 0.5 or now > s.at + 60 then
      -- A clock was set: only what was learned counts.
      for _, name in ipairs({'rate', 'window', 'limit', 'latency', 'perEvent', 'confirmed'}) do fresh[name] = s[name] end
      fresh.complete, fresh.pace, fresh.search = now, math.max(s.rate * 0.97, 0.5), s.rate > 0 and 0 or 1
      s = nil
    elseif now > s.at + 1 then
      -- No replica has settled, so what was sent meanwhile is unknown.
      s.complete, s.streakAt, s.blocked = now, 0, 0
    end
    if not s then
      s = fresh
      for i = 1, slots do s.fine[i], s.coarse[i] = 0, 0 end
    end
    s.at = math.max(s.at, now)
    s.pauseEnds, s.judge = math.min(s.pauseEnds, now + 61), s.judge <= now + 1 and s.judge or 0

    -- The accepted requests, in slots of 20 ms and of a second.
    local function record(list, newest, slot, count)
      if slot > newest then
        for i = math.max(newest + 1, slot - slots + 1), slot do list[i % slots + 1] = 0 end
        newest = slot
      end
      if slot > newest - slots then list[slot % slots + 1] = list[slot % slots + 1] + count end
      return newest
    end
    local function note(time, count)
      s.fineAt = record(s.fine, s.fineAt, math.floor(time / 0.02), count)
      s.coarseAt = record(s.coarse, s.coarseAt, math.floor(time), count)
      s.total = math.max(s.total + count, 0)
    end
    local function sum(list, newest, first, last)
      local count = 0
      for slot = math.max(first, newest - slots + 1), math.min(last, newest) do count = count + list[slot % slots + 1] end
      return count
    end
    local function accepted(time, seconds)
      if seconds <= 1 then
        -- A little more than the time, because a request less would be a lower rate.
        local first = time - seconds - 0.5 / math.max(s.rate, 5)
        return sum(s.fine, s.fineAt, math.floor(first / 0.02), math.floor(time / 0.02)) / seconds
      end
      local span = clamp(time - s.complete, 1, seconds)
      return sum(s.coarse, s.coarseAt, math.floor(time - span), math.floor(time)) / span
    end
    local function totalBefore(time)
      return s.total - sum(s.fine, s.fineAt, math.floor((time + 0.02) / 0.02), s.fineAt)
    end

    -- The pace: a hold a little below the rate, a probe a little above it, and steps as long as none is refused.
    local function isSlow() return s.rate < 10 end
    -- Far below what was known: perhaps the evidence is wrong, so the rate grows at once.
    local function isMisled() return s.rate < 0.8 * s.confirmed end
    local function excess() return clamp(1.4 / math.max(s.rate * s.window, 0.001), 0.03, 0.2) end
    local function factor(step)
      if step == 1 then return 1 + excess() end
      local steps = s.window > 1 and {1.1, 1.25, 1.5, 2} or isSlow() and {1.25, 1.6, 2.2} or {1.5, 2}
      local further = math.max(step - 1 - #steps, 0)
      return math.max(steps[math.min(step - 1, #steps)] * (isSlow() and 1.4 or 1.25) ^ further, 1 + excess() * step)
    end
    local function hold(rate)
      s.rate = clamp(rate, 0.5, 5000)
      s.pace, s.step, s.count = s.rate * 0.97, 0, 0
    end
    local function begin(step)
      s.step, s.count, s.pace = step, 0, s.rate * factor(step)
      if s.pace > 5000 then s.rate, s.step, s.streakAt = 0, 0, 0 end
    end
    local function leastHold()
      if s.search > 0 or isMisled() then return math.max(5, (s.window + s.latency) * s.pace) end
      local pause = (s.pauseEnds - s.pauseBegan) * (s.asked > 0 and 26 or 4)
      return math.max(24, math.max(2 * s.window, pause) * s.pace)
    end
    local function advance(count)
      s.since, s.count = s.since + count, s.count + count
      if s.step == 0 then
        if s.guess == 1 then
          s.guess = 0
          begin(2)
        elseif s.count >= leastHold() then
          local misled = isMisled()
          if s.search == 0 and not misled then s.confirmed = s.rate end
          s.falls = 0
          if s.search > 0 or misled or s.credit >= 0.5 then begin(misled and s.window == 1 and 2 or 1) end
        end
      elseif s.step == 1 then
        if s.count < math.max(1.4 / excess(), (1.7 * s.window + 0.3 * s.latency) * s.pace) then return end
        -- A bucket that filled up during the last pause must be empty, too.
        if s.window > 1 or s.level <= (s.rate < 15 and -2 or -1) then return begin(2) end
        if not isSlow() then s.pace = s.rate * (1 + 2 * excess()) end
      else
        local time = s.window > 1 and 1.1 * s.window or s.step <= 3 and 0.15 + s.latency / 2 or 0.25 + s.latency
        if s.count >= math.max(5, time * s.pace) then begin(s.step + 1) end
      end
    end
    local function sent(time, count, wanted)
      note(time, count)
      if s.rate == 0 then return end
      s.level = math.min(s.level + math.max(time - s.levelAt, 0) * s.rate, s.rate) - count
      s.levelAt = math.max(time, s.levelAt)
      s.credit = math.min(s.credit + count / ((s.rate < 15 and 66 or 58) * s.perEvent), 1)
      if wanted > 0 and now >= s.pauseEnds then advance(wanted) end
    end

    -- What a 429 shows.
    local function highest(time)
      if time - s.complete < 1 then return 5000 end
      local last = accepted(time, s.window)
      if s.eventAt > 0 and time - s.eventAt >= 2 * s.window then
        return math.max(last, (totalBefore(time) - s.eventTotal + 1) / (time - s.eventAt))
      end
      return math.max(last, accepted(time, math.max(4, s.window)) + 0.25)
    end
    local function pause(length)
      s.pauseBegan, s.pauseEnds, s.asked, s.since = now + math.min(0.03, length), now + length, 0, 0
    end
    local function pauseLength()
      local least = s.guess == 1 and 0.47 or 0.01
      -- Until a window of a second has room for another request.
      local most, count, clear = math.ceil(s.rate - 0.1) - 1, 0, 0
      for slot = s.fineAt, math.max(math.floor(now / 0.02) - 50, s.fineAt - slots + 1), -1 do
        count = count + s.fine[slot % slots + 1]
        if count > most then
          clear = math.max((slot + 1) * 0.02 + 1 - now, 0)
          break
        end
      end
      return math.min(math.max(least, clear) * 2 ^ math.min(s.strikes, 8), 4)
    end
    local function learn(time)
      if s.rate == 0 then
        s.guess = 1
        return hold(math.max(accepted(time, 1), accepted(time, 1) > 0 and 2 or 10))
      end
      local old, high = s.rate, highest(time)
      s.strikes = s.since < math.max(6, math.min(s.pace, old)) and s.strikes + 1 or 0
      if s.strikes >= 4 then s.testing = 1 end
      if s.step > 1 then
        -- The rate has grown: to what a window admitted, or to the last step that nothing refused.
        hold(math.min(math.max(accepted(time, s.window), s.step > 2 and old * factor(s.step - 1) or old), s.pace))
        s.search, s.falls = s.rate > old * 1.02 and 1 or 0, 0
        -- The probe followed a hold without a refusal: that rate is about right, however far it has fallen.
        s.confirmed = math.min(s.confirmed, old)
      elseif s.step == 1 then
        -- The rate is right, and the refusal was expected. A low rate may be too low by a part of a request.
        if s.search == 0 then s.confirmed = old end
        s.search = 0
        hold(math.max(old, isSlow() and math.min(accepted(time, s.window), old * 1.04) or 0))
      else
        s.falls = s.falls + 1
        hold(math.min(old * 0.96 ^ math.min(s.falls, 4), high))
      end
    end

    -- A time in which all is refused ends with the window, if the window is long; otherwise the upstream had a failure.
    local function isBlocked(time)
      local least = s.confirmed > 0 and 1 or 0.5
      return s.streakAt > 0 and (s.blocked == 1 or time - s.streakAt > math.max(least, 1 / s.streakRate))
    end
    local function testAgain(count)
      s.blocked, s.testing, s.refusals, s.events = 1, 1, count, s.events + 1
      hold(s.streakRate)
      s.level, s.levelAt = 0, now
      local blocked = now - s.streakAt
      local length = s.window > 1 and clamp(blocked / 4, 0.25, s.window / 16)
        or clamp(math.max(blocked / 32, 2 / s.rate), 0.25, 1)
      pause(math.max(length, 1 / s.rate))
    end
    local function refused(time, asked, count)
      note(time, -count)
      if time <= s.pauseBegan then
        s.refusals, s.firstSent = s.refusals + count, math.min(s.firstSent, time)
        if s.blocked == 0 and s.refusals >= 3 then
          if s.confirmed == 0 and s.events == 1 and accepted(s.firstSent, 1) <= 0 then
            -- All were refused, so they show no limit.
            s.guess, s.blocked, s.testing = 1, 1, 1
            hold(math.max(10, s.streakRate))
          else
            s.guess = 0
            hold(math.min(s.rate, highest(time)))
            if s.events == 1 then s.streakRate = s.rate end
          end
        end
      elseif isBlocked(time) then
        testAgain(count)
      else
        if s.confirmed > 0 then
          s.credit = math.max(s.credit - 1, -1)
          if s.refusals > 0 then
            local most = math.max(4, 0.05 * s.rate)
            s.perEvent = s.perEvent + (math.min(s.refusals, most) - s.perEvent) / 4
          end
        end
        s.refusals, s.firstSent = count, time
        learn(time)
        s.events = s.streakAt > 0 and s.events + 1 or 1
        if s.streakAt == 0 then s.streakAt, s.streakRate, s.blocked = time, s.rate, 0 end
        s.level, s.levelAt = 0, now
        pause(pauseLength())
      end
      s.eventAt, s.eventTotal = time, totalBefore(time)
      if asked >= 0 and now + asked > s.pauseEnds then s.pauseEnds, s.asked = now + asked, asked end
    end
    local function learnWindow(time)
      local length = time - s.streakAt
      if length <= 1.5 * s.window and not (s.window > 1 and length > 1) then return end
      local window = math.max(length <= 10 and 10 or 60, s.window, s.suspect)
      -- The second one within a window of the first shows it.
      if s.blockEnd > 0 and s.streakAt - s.blockEnd < window and length <= 60 then s.window = window end
      local rate = accepted(s.streakAt, math.max(math.min(length, 60), s.window))
      if rate > 0 then s.streakRate = math.min(s.streakRate, rate) end
      s.suspect, s.blockEnd = window, time
    end
    local function answered(count, time, latency)
      s.latency = s.latency + (latency - s.latency) * math.min(count / 16, 1)
      local wasBlocked = false
      if s.streakAt > 0 and time > s.streakAt then
        wasBlocked = s.blocked == 1 or s.asked > 1.5 and s.asked * s.streakRate > 1.5
        if wasBlocked then
          learnWindow(time)
          hold(s.streakRate)
        end
        s.streakAt, s.blocked = 0, 0
      end
      if s.testing == 0 or time <= s.pauseBegan then return end
      s.testing, s.credit, s.strikes = 0, math.max(s.credit, 0), wasBlocked and 0 or 1
      if wasBlocked and s.confirmed == 0 and s.window == 1 then s.guess = 1 end
      s.line = math.min(s.line, math.max(now, time + 1 / s.pace))
    end
    if s.window > 1 and now - s.blockEnd > 1800 then s.window, s.suspect = 1, 0 end

    """
}
