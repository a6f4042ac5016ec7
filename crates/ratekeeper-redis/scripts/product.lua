-- Products and quotients of whole numbers, which may need 126 bits.

local function limbs(high, low)
  local thousands = floor(low / 1000000)
  return { low % 1000000, thousands + high % 1000 * 1000, floor(high / 1000) % 1000000, floor(high / GIGA) }
end

-- The product in limbs of 1e6, the lowest first. A sum of four products of limbs is exact.
local function exact_product(high, low, by_high, by_low)
  local one, other = limbs(high, low), limbs(by_high, by_low)
  local product, carry = {}, 0
  for place = 2, 8 do
    local sum = carry
    for index = math.max(1, place - 4), math.min(4, place - 1) do
      sum = sum + one[index] * other[place - index]
    end
    product[place - 1] = sum % 1000000
    carry = floor(sum / 1000000)
  end
  product[8] = carry
  return product
end

-- The product as a pair. What is beyond 64 bits is only known to be so.
local function times(high, low, by_high, by_low)
  local rough = double(high, low) * double(by_high, by_low)
  if rough < EXACT then
    local quotient = floor(rough / GIGA)
    return quotient, rough - quotient * GIGA
  end
  local p = exact_product(high, low, by_high, by_low)
  local rest = floor(p[2] / 1000)
  return rest + p[3] * 1000 + p[4] * 1e9 + p[5] * 1e15 + p[6] * 1e21 + p[7] * 1e27 + p[8] * 1e33,
    p[1] + p[2] % 1000 * 1000000
end

-- True if a * b < c * d.
local function product_is_less(a_high, a_low, b_high, b_low, c_high, c_low, d_high, d_low)
  local one = double(a_high, a_low) * double(b_high, b_low)
  local other = double(c_high, c_low) * double(d_high, d_low)
  -- Each is off by less than 2^-51 of itself: only what is closer than that needs more digits.
  local doubt = (one + other) / 1e15
  if one + other < EXACT or one < other - doubt or one > other + doubt then return one < other end
  one = exact_product(a_high, a_low, b_high, b_low)
  other = exact_product(c_high, c_low, d_high, d_low)
  for place = 8, 1, -1 do
    if one[place] ~= other[place] then return one[place] < other[place] end
  end
  return false
end

-- The quotient of two natural numbers, rounded down.
local function quotient(high, low, by_high, by_low)
  if by_high == 0 and by_low < 9000000 then
    -- Long division: a remainder times 1e9 stays exact.
    local rest = high % by_low
    local lower = rest * GIGA + low
    return (high - rest) / by_low, floor(lower / by_low)
  end
  -- So it is less than 2^53, and this is off by little.
  local guess = floor(double(high, low) / double(by_high, by_low))
  while true do
    local guess_high, guess_low = floor(guess / GIGA), guess % GIGA
    local rest_high, rest_low = minus(high, low, times(guess_high, guess_low, by_high, by_low))
    if rest_high < 0 then
      guess = guess - 1
    elseif less(rest_high, rest_low, by_high, by_low) then
      return guess_high, guess_low
    else
      guess = guess + 1
    end
  end
end

-- Of a sliding window, the most that passes: the largest n up to `most` with before * left < (most - n + 1) * length.
local function sliding_most(before_high, before_low, left_high, left_low, most_high, most_low, length_high, length_low)
  local low_high, low_low, above_high, above_low = 0, 0, plus(most_high, most_low, 0, 1)
  while true do
    local sum_high, sum_low = plus(low_high, low_low, above_high, above_low)
    local high = floor(sum_high / 2)
    local low = floor(((sum_high - high * 2) * GIGA + sum_low) / 2)
    if high == low_high and low == low_low then return high, low end
    local rest_high, rest_low = minus(most_high, most_low, high, low)
    rest_high, rest_low = plus(rest_high, rest_low, 0, 1)
    if product_is_less(before_high, before_low, left_high, left_low, rest_high, rest_low, length_high, length_low) then
      low_high, low_low = high, low
    else
      above_high, above_low = high, low
    end
  end
end
