-- Sets a value unless a later owner of the lock has written before.
-- KEYS[1]: the value; KEYS[2]: the highest fencing token that has written it;
-- ARGV[1]: the new value; ARGV[2]: the writer's fencing token.
-- 1: written, 0: refused, the writer is not the owner any more.
if not string.match(ARGV[2], '^%d+$') then
  return redis.error_reply('ERR the fencing token is no number')
end
local highest = redis.call('GET', KEYS[2])
if highest and tonumber(ARGV[2]) < tonumber(highest) then
  return 0
end
redis.call('SET', KEYS[2], ARGV[2])
redis.call('SET', KEYS[1], ARGV[1])
return 1
