-- Every caller waits 10 ms after each response.

function delay()
  return 10
end
