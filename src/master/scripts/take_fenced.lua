-- Takes a lock that is free, and counts that.
-- KEYS[1]: the lock; KEYS[2]: its counter; ARGV[1]: the token; ARGV[2]: the
-- lock's milliseconds; ARGV[3]: the counter's; ARGV[4]: the generation of this
-- server, which is another after each restart.
-- The count, or nothing: it is taken. An error: the counter can't count any more.
-- The counter is a hash whose one field is the generation that wrote it, at the
-- count. The lock is set last: where anything fails, nothing was taken, though the
-- field may have gone up by one, or be there at 1, which no later count goes on from.
if redis.call('EXISTS', KEYS[1]) == 1 then
  return false
end
local count = redis.call('HINCRBY', KEYS[2], ARGV[4], 1)
local is_new = count < 1e15
if is_new then
  -- No clock has begun it since 2001: this generation hadn't counted. A counter that
  -- was lost, or that may be older than it was, goes on above where it can have been:
  -- at the time in microseconds.
  local now = redis.call('TIME')
  count = now[1] * 1000000 + now[2]
  local counter = redis.call('HGETALL', KEYS[2])
  for value = 2, #counter, 2 do
    if not string.find(counter[value], '^%-?%d+$') then
      return redis.error_reply('COUNTER of fencing tokens: another generation has no count')
    end
    count = math.max(count, counter[value] + 1)
  end
end
local digits = string.format('%.0f', count)
if count >= 2 ^ 53 then
  return redis.error_reply('COUNTER of fencing tokens: ' .. digits .. ' is not below 2^53')
end
if is_new then
  -- Whoever may HINCRBY, as above, leaves no counter behind that has lost its count.
  redis.call('DEL', KEYS[2])
  redis.call('HINCRBY', KEYS[2], ARGV[4], digits)
end
redis.call('PEXPIRE', KEYS[2], ARGV[3])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return count
