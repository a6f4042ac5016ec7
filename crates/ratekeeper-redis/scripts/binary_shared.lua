-- Versioned binary, of what the quotas of requests share: one hash, each field after the name of its state and a slash.

-- The most fields that the quotas of requests may have in one hash: sixteen states beside the one that is written.
local MOST_FIELDS = 52

ENCODINGS.B = {
  load = function(key, rules)
    local algorithm, prefix = rules[1].algorithm, rules[1].name .. '/'
    local wanted = {}
    for index, name in ipairs(algorithm.names) do wanted[index] = prefix .. name end
    local found = redis.call('HMGET', key, 'v', unpack(wanted))
    if found[1] ~= '1' then
      local fields = redis.call('HGETALL', key)
      if #fields == 0 then return false end
      return fields, true
    end
    local fields = { 'v', '1' }
    for index, name in ipairs(algorithm.names) do
      if found[index + 1] then fields[#fields + 1], fields[#fields + 2] = name, found[index + 1] end
    end
    if #fields == 2 then return fields end
    rules[1].found = binary_state(algorithm, fields)
    if not rules[1].found then return redis.call('HGETALL', key), true end
    return fields
  end,

  told = binary_told,

  -- Whatever is there.
  all = function(key) return redis.call('HGETALL', key) end,

  save = function(key, rules, high, low)
    local prefix = rules[1].name .. '/'
    -- Before the write: a hash that it makes has no time to live yet, which is not for ever.
    local millis = no_shorter(key, lifetime(high, low))
    binary_write(key, prefix, rules[1].algorithm, rules[1].new)
    redis.call('PEXPIRE', key, format('%d', millis))
    if rules[1].found then return end
    local surplus = redis.call('HLEN', key) - MOST_FIELDS
    if surplus <= 0 then return end
    for _, name in ipairs(redis.call('HKEYS', key)) do
      if surplus > 0 and name ~= 'v' and sub(name, 1, #prefix) ~= prefix then
        -- A state goes as a whole.
        local state = match(name, '^(.*/)')
        for _, field in ipairs(redis.call('HKEYS', key)) do
          if state and sub(field, 1, #state) == state then surplus = surplus - redis.call('HDEL', key, field) end
        end
      end
    end
  end,

  forget = function(key, rules)
    for _, name in ipairs(rules[1].algorithm.names) do redis.call('HDEL', key, rules[1].name .. '/' .. name) end
    if redis.call('HLEN', key) <= 1 then redis.call('DEL', key) end
  end,
}
