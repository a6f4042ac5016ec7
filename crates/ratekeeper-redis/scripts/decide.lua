-- Decides one request: all rules of all its plans, all or nothing, at one instant.
--
-- KEYS     one for each plan (ASCII) or each rule (binary)
-- ARGV[1]  a: acquire, u: acquire up to, p: peek, r: refund, d: forget
-- ARGV[2]  the cost
-- then for each key the letter of its encoding; for ASCII, how many rules are in it;
--      for each rule the letter of its algorithm, for a window in ASCII its name, and the algorithm's arguments
--
-- Returns { outcome, now, … }; now as the time part tells it: microseconds as a number, or nanoseconds as text.
--   outcome 1 it passes, 0 it does not; then for each key its state as it was before (false: none), and for `u` what
--             was granted. Who asked decides again on that state at that time, and so knows what is left and how long
--             to wait: nothing is computed twice in different ways.
--   outcome 2 a state was not understood; then the number of its key and what was found. Nothing was written.
--   outcome 3 now lies outside the windows that came with the request. Nothing was written.

local VERB = ARGV[1]
local COST_HIGH, COST_LOW = natural(ARGV[2])
local NO_COST = COST_HIGH == 0 and COST_LOW == 0
local at = 3
local answer = { 0, NOW, false }
local plans, rules = {}, {}

for index = 1, #KEYS do
  local plan = { false, encoding = ENCODINGS[ARGV[at]], raw = false }
  local count = 1
  if ARGV[at] == 'a' then
    at = at + 1
    count = tonumber(ARGV[at])
  end
  at = at + 1
  for number = 1, count do
    -- All fields that most algorithms have at once: a table that grows field by field is made anew at each doubling.
    local rule = {
      algorithm = ALGORITHMS[ARGV[at]], name = false, found = false, new = false, repaired = false, high = 0, low = 0,
      burst_high = 0, burst_low = 0, each_high = 0, each_low = 0, refill_high = 0, refill_low = 0, capacity = 0, rate = 0,
    }
    at = at + 1
    if plan.encoding == ENCODINGS.a and rule.algorithm.header == '23' then
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

for index = 1, #plans do
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
  if not rule.algorithm.brief then return rule.found end
  return rule.algorithm.brief(rule, COST_HIGH, COST_LOW, VERB == 'r') or {}
end
for index = 1, #plans do
  local plan = plans[index] answer[index + 2] = plan.encoding.told(plan.raw, plan, brief_of) end
if VERB == 'u' then answer[#answer + 1] = decimal(COST_HIGH, COST_LOW) end

if VERB == 'd' then
  for index = 1, #plans do
  local plan = plans[index]
    if plan.raw then redis.call('DEL', KEYS[index]) end
  end
elseif not NO_COST and VERB ~= 'p' then
  for index = 1, #plans do
  local plan = plans[index]
    local is_changed, is_whole, high, low = false, true, 0, 0
    for number = 1, #plan do
      local rule = plan[number]
      if VERB == 'r' then
        rule.algorithm.refund(rule, COST_HIGH, COST_LOW)
        is_changed = is_changed or plan.raw
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
        redis.call('DEL', KEYS[index])
      else
        plan.encoding.save(KEYS[index], plan, high, low)
      end
    end
  end
end
return answer
