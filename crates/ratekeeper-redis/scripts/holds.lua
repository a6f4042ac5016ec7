-- Holds. A hash has the records of a key's holds by their ids, `i` and 16 bytes; what live holds have of each rule, `=` and
-- the 8 bytes of its id; and its head, `#`: no lease ends before NEXT, how many holds are LIVE, UNTIL when hash and leases
-- are kept, and when the next ended holds are CLEARed away; and what is still to be given back under a plan, `<` and its
-- name: records of holds that have lapsed, each after its length. A sorted set has the ends of the leases, in microseconds; of
-- a hold that has ended when it may be forgotten, below zero.
--
-- A live hold is `L`, the end of its lease, when it was charged as a pair, how many rules are in shadow and a digit for
-- each, 1 if it was charged; then the body: how many rules, and for each its plan, whether it is a place (1) or a rate that
-- is given back when the lease runs out (2), its place among
-- those in shadow, whether it is bounded, its id, and the amount as a pair; then its plans. The script reads no further.
--
-- A hold that has ended is the letter of how it did, the end of its lease, when it ended as a pair, how many keys have its
-- states, and the sizes of what follows: when it was charged and the digits of the rules in shadow, the body, what was spent,
-- the sums, and the state under each key.
--
-- These functions are for what is rare, and made when they are needed.

-- Adds to the notes that a hold has lapsed whose estimates are to be given back under some of its plans.
local function note_lapsed(notes, record, plans, at)
  local count = string.byte(record, at)
  at = at + 1
  for plan = 0, count - 1 do
    local size = string.byte(record, at)
    if plans[plan] then
      local field = '<' .. string.sub(record, at + 1, at + size)
      local note = notes[field]
      if not note then
        note = {}
        notes[field], notes[#notes + 1] = note, field
      end
      note[#note + 1] = struct.pack('<I4', #record) .. record
    end
    at = at + 1 + size
  end
end

-- Writes the notes, each once: a field grows to a mebibyte, and what is beyond is not given back.
local function write_notes(holds, notes)
  for index = 1, #notes do
    local field = notes[index]
    local noted = redis.call('HGET', holds, field) or ''
    local size, count = #noted, 0
    while size < 1048576 and notes[field][count + 1] do
      count = count + 1
      size = size + #notes[field][count]
    end
    if count > 0 then redis.call('HSET', holds, field, noted .. table.concat(notes[field], '', 1, count)) end
  end
end

-- Frees what is held by leases that have run out, a thousand at most: the rest still counts. Returns when the next one ends
-- and how many are live.
local function lapse(holds, leases, micros, live, til, clear)
  local due = redis.call('ZRANGEBYSCORE', leases, '0', micros, 'LIMIT', '0', '1000')
  if due[1] then
    local records, sums, order, notes = redis.call('HMGET', holds, unpack(due)), {}, {}, {}
    for index = 1, #due do
      local record = records[index]
      if record and string.sub(record, 1, 1) == 'L' then
        live = live - 1
        local at = 27 + string.byte(record, 26)
        local count, plans = string.byte(record, at), nil
        at = at + 1
        for _ = 1, count do
          local plan, kind, flag, is_bounded = string.byte(record, at, at + 3)
          if kind == 2 then
            plans = plans or {}
            plans[plan] = true
          end
          if is_bounded == 1 and (flag == 0 or string.byte(record, 26 + flag) == 49) then
            local field = '=' .. string.sub(record, at + 4, at + 11)
            local high, low = struct.unpack('<dd', record, at + 12)
            local sum = sums[field]
            if not sum then
              sum = { 0, 0 }
              sums[field], order[#order + 1] = sum, field
            end
            sum[1], sum[2] = sum[1] + high, sum[2] + low
            if sum[2] >= 1000000000 then sum[1], sum[2] = sum[1] + 1, sum[2] - 1000000000 end
          end
          at = at + 28
        end
        if plans then note_lapsed(notes, record, plans, at) end
      end
    end
    for index = 1, #order do
      local field = order[index]
      local high, low = struct.unpack('<dd', redis.call('HGET', holds, field) or string.rep('\0', 16))
      high, low = high - sums[field][1], low - sums[field][2]
      if low < 0 then high, low = high - 1, low + 1000000000 end
      if high < 0 then high, low = 0, 0 end
      redis.call('HSET', holds, field, struct.pack('<dd', high, low))
    end
    write_notes(holds, notes)
    redis.call('HDEL', holds, unpack(due))
    redis.call('ZREM', leases, unpack(due))
  end
  local first = redis.call('ZRANGEBYSCORE', leases, '0', '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
  local next = first[2] and tonumber(first[2]) or 9007199254740992
  if live < 0 then live = 0 end
  redis.call('HSET', holds, '#', struct.pack('<dddd', next, live, til, clear))
  return next, live
end

-- Forgets holds that ended long ago, a thousand at most; and if more than 65,536 have ended, those that may be forgotten
-- first. Returns true if there may be more.
local function forget(holds, leases, micros)
  local ended = redis.call('ZRANGEBYSCORE', leases, '-inf', micros - 9007199254740992, 'LIMIT', '0', '1000')
  if not ended[1] and redis.call('ZCOUNT', leases, '-inf', '-1') > 65536 then
    ended = redis.call('ZRANGEBYSCORE', leases, '-inf', '-1', 'LIMIT', '0', '1000')
  end
  if ended[1] then
    redis.call('HDEL', holds, unpack(ended))
    redis.call('ZREM', leases, unpack(ended))
  end
  return #ended == 1000
end
