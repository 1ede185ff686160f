-- A lifetime that no request has used yet, so that no request finds its token in the cache.

local least, most = 60, 15000000
local ttl

function init(arguments)
  -- Runs start at different lifetimes, at least the length of the cache apart.
  ttl = least + (os.time() % 10000) * 1400
end

function request()
  ttl = ttl < most and ttl + 1 or least
  return "GET /token?ttl=" .. ttl .. " HTTP/1.1\r\nHost: localhost\r\n\r\n"
end
