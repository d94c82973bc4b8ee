-- Raises the counter of a lock that still has the owner's token.
-- KEYS[1]: the lock; KEYS[2]: its counter; ARGV[1]: the token; ARGV[2]: the
-- count; ARGV[3]: the counter's milliseconds; ARGV[4]: this server's generation.
-- 1: it is just that now, 0: the lock is not the owner's, or the counter is higher
-- (another has been granted the lock here before this owner was), or is not of
-- this generation alone (it may be older than it was).
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
local counter = redis.call('HGETALL', KEYS[2])
local count = 0
if #counter > 0 then
  count = tonumber(string.match(counter[2], '^[1-9]%d*$'))
  if #counter > 2 or counter[1] ~= ARGV[4] or not count or count > tonumber(ARGV[2]) then
    return 0
  end
end
redis.call('HINCRBY', KEYS[2], ARGV[4], string.format('%.0f', ARGV[2] - count))
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return 1
