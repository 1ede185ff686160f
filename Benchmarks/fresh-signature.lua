-- A lifetime that nobody has asked for yet, so that no request finds its token in the cache.

local least, most = 60, 15000000
local ttl

function init(arguments)
  -- Runs begin at different places, a cache's length apart at the very least.
  ttl = least + (os.time() % 10000) * 1400
end

function request()
  ttl = ttl < most and ttl + 1 or least
  return "GET /token?ttl=" .. ttl .. " HTTP/1.1\r\nHost: localhost\r\n\r\n"
end
