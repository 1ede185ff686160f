-- A header field whose value is another one in each request. Arguments: its name, and a file with a value in each line.

local texts = {}
local last = 0

function init(arguments)
  for value in io.lines(arguments[2]) do
    texts[#texts + 1] = wrk.format("GET", nil, { [arguments[1]] = value })
  end
end

function request()
  last = last % #texts + 1
  return texts[last]
end
