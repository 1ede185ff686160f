-- Paths that are all different at any one time, so that no request shares the response to another: 4096, or as many as
-- the argument says.

local texts, count = {}, 4096
local last = 0

function init(arguments)
  count = tonumber(arguments[1]) or count
  for number = 1, count do
    texts[number] = wrk.format("GET", "/v1/catalog/us/albums/" .. 1200860000 + number)
  end
end

function request()
  last = last % count + 1
  return texts[last]
end
