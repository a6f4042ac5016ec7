-- Decides one request: all rules of all its plans, all or nothing, at one instant.
--
-- KEYS     one for each plan (ASCII) or each rule (binary); to refund and to forget, for each of them where its last reset
--          is noted
-- ARGV[1]  a: acquire, u: acquire up to, p: peek, r: refund, d: forget
-- ARGV[2]  the cost
-- to refund, when it was charged: nanoseconds ago, or `@` and an instant
-- then for each key the letter of its encoding (a: ASCII, b: binary; A, B: what the quotas of requests share); `a` only:
--      how many rules; for each rule its algorithm's letter, its name (not for `b`: the key has it), then the algorithm's
--      arguments
--
-- Returns { outcome, now, … }; now as the time part tells it: microseconds as a number, or nanoseconds as text.
--   outcome 1 it passes, 0 it does not; then for each key its state as it was before (false: none; for `d` whatever was
--             there), for `u` what was granted, and for `r` a digit for each key, 1 if it was reset since the charge.
--             Who asked decides again on that state at that time, and so knows what is left and how long to wait:
--             nothing is computed twice in different ways.
--   outcome 2 a state was not understood; then the number of its key and what was found. Nothing was written.
--   outcome 3 now lies outside the windows that came with the request. Nothing was written.

local VERB = ARGV[1]
local COST_HIGH, COST_LOW = natural(ARGV[2])
local NO_COST = COST_HIGH == 0 and COST_LOW == 0
local at = 3
local COUNT = #KEYS
if VERB == 'r' then
  if sub(ARGV[3], 1, 1) == '@' then
    CHARGED_HIGH, CHARGED_LOW = integer(sub(ARGV[3], 2))
    CHARGED_HIGH, CHARGED_LOW = least(CHARGED_HIGH, CHARGED_LOW, NOW_HIGH, NOW_LOW)
  else
    CHARGED_HIGH, CHARGED_LOW = minus(NOW_HIGH, NOW_LOW, natural(ARGV[3]))
    if less(CHARGED_HIGH, CHARGED_LOW, FIRST_HIGH, FIRST_LOW) then CHARGED_HIGH, CHARGED_LOW = FIRST_HIGH, FIRST_LOW end
  end
  AGE_HIGH, AGE_LOW = minus(NOW_HIGH, NOW_LOW, CHARGED_HIGH, CHARGED_LOW)
  at = 4
end
if VERB == 'r' or VERB == 'd' then COUNT = COUNT / 2 end
local answer = { 0, NOW, false }
local plans, rules = {}, {}

for index = 1, COUNT do
  local letter = ARGV[at]
  -- A state of a rule's own nobody else wrote. What quotas share may belong to a longer one, and is honoured as it stands.
  local is_shared = letter == 'A' or letter == 'B'
  local plan = { false, encoding = ENCODINGS[letter], raw = false, shared = is_shared, others = false }
  local count = 1
  if letter == 'a' then
    at = at + 1
    count = tonumber(ARGV[at])
  end
  at = at + 1
  for number = 1, count do
    -- All fields that most algorithms have at once: a table that grows field by field is made anew at each doubling.
    local rule = {
      algorithm = ALGORITHMS[ARGV[at]], name = false, found = false, new = false, repaired = false, own = not is_shared,
      high = 0, low = 0, burst_high = 0, burst_low = 0, each_high = 0, each_low = 0, refill_high = 0, refill_low = 0,
      capacity = 0, rate = 0,
    }
    at = at + 1
    if letter ~= 'b' then
      rule.name = ARGV[at]
      at = at + 1
    end
    at = rule.algorithm.arguments(rule, at)
    plan[number] = rule
    rules[#rules + 1] = rule
  end
  plans[index] = plan
end
if OTHER_WINDOW then return { 3, NOW } end

if VERB == 'd' then
  answer[1] = 1
  for index = 1, COUNT do
    local plan, key, marker = plans[index], KEYS[index], KEYS[COUNT + index]
    -- What is forgotten need not be understood, nor be of the right kind.
    local is_read, raw, unread = pcall(plan.encoding.load, key, plan)
    -- So long something that was charged before could be given back: while what is forgotten would have counted.
    local millis = lifetime(0, 0)
    for number = 1, #plan do
      local rule = plan[number]
      rule.algorithm.view(rule, is_read and not unread and rule.found)
      local state, high, low = rule.algorithm.state(rule)
      if state then millis = math.max(millis, lifetime(high, low)) end
    end
    millis = no_shorter(marker, no_shorter(key, millis))
    raw = is_read and raw
    answer[index + 2] = raw and plan.encoding.all and plan.encoding.all(key) or raw
    redis.call('DEL', key)
    redis.call('SET', marker, '42|' .. decimal(NOW_HIGH, NOW_LOW), 'PX', format('%d', millis))
  end
  return answer
end

for index = 1, COUNT do
  local plan = plans[index]
  local raw, unread = plan.encoding.load(KEYS[index], plan)
  if unread then return { 2, NOW, index, raw } end
  plan.raw = raw
  for number = 1, #plan do plan[number].algorithm.view(plan[number], plan[number].found) end
end

local function all_pass(high, low)
  for number = 1, #rules do
    if not rules[number].algorithm.passes(rules[number], high, low) then return false end
  end
  return true
end

local passes = all_pass(COST_HIGH, COST_LOW)
if VERB == 'u' and not passes then
  -- The most that passes: what passes is monotone in the cost, so halve.
  local least_high, least_low, most_high, most_low = 0, 0, COST_HIGH, COST_LOW
  while true do
    local sum_high, sum_low = plus(least_high, least_low, most_high, most_low)
    local high = floor(sum_high / 2)
    local low = floor(((sum_high - high * 2) * GIGA + sum_low) / 2)
    if high == least_high and low == least_low then break end
    if all_pass(high, low) then
      least_high, least_low = high, low
    else
      most_high, most_low = high, low
    end
  end
  passes = least_high > 0 or least_low > 0
  -- What is refused is a cost of one.
  COST_HIGH, COST_LOW = least_high, passes and least_low or 1
end
if passes then answer[1] = 1 end

local function brief_of(rule)
  if not rule.found or not rule.algorithm.brief then return rule.found end
  return rule.algorithm.brief(rule, COST_HIGH, COST_LOW, VERB == 'r')
end
for index = 1, COUNT do
  answer[index + 2] = plans[index].encoding.told(plans[index].raw, plans[index], brief_of)
end
if VERB == 'u' then answer[#answer + 1] = decimal(COST_HIGH, COST_LOW) end

if VERB == 'r' then
  local since = ''
  for index = 1, COUNT do
    local marker, high, low = redis.call('GET', KEYS[COUNT + index]), nil, nil
    if marker then high, low = integer(match(marker, '^42|(%-?%d+)$') or '') end
    -- A marker that cannot be read says that there was a reset, and not when.
    plans[index].is_reset = marker and not (high and less(high, low, CHARGED_HIGH, CHARGED_LOW))
    since = since .. (plans[index].is_reset and '1' or '0')
  end
  answer[#answer + 1] = since
end

if NO_COST or VERB == 'p' then return answer end
for index = 1, COUNT do
  local plan = plans[index]
  local is_changed, is_whole, high, low = false, true, 0, 0
  for number = 1, #plan do
    local rule = plan[number]
    if VERB == 'r' then
      if plan.raw and not plan.is_reset then
        rule.algorithm.refund(rule, COST_HIGH, COST_LOW)
        is_changed = true
      end
    elseif passes then
      rule.algorithm.charge(rule, COST_HIGH, COST_LOW)
      is_changed = true
    else
      -- A state that had to be cut off is written back even by a denial, or the key would stay locked out.
      is_changed = is_changed or rule.repaired
    end
  end
  if is_changed then
    for number = 1, #plan do
      local rule = plan[number]
      local state, rule_high, rule_low = rule.algorithm.state(rule)
      if state then
        is_whole = false
        if less(high, low, rule_high, rule_low) then high, low = rule_high, rule_low end
      end
      -- What was not charged stays as it was found, to the last bit; but what is fresh under this quota is so now,
      -- and would not be under a larger one.
      if VERB ~= 'r' and not passes and not rule.repaired and not rule.is_fresh then state = rule.found end
      rule.new = state
    end
    if is_whole then
      plan.encoding.forget(KEYS[index], plan)
    else
      plan.encoding.save(KEYS[index], plan, high, low)
    end
  end
end
return answer
