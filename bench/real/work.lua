-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Work for lua5.4: tables, closures and strings; the collector frees in its own order. Prints figures that depend on
-- the number of rounds only. Usage: lua5.4 work.lua ROUNDS
local rounds = tonumber(arg[1])
local seed = 42

local function dice(limit)
    seed = (seed * 1103515245 + 12345) % 2147483648
    return (seed // 65536) % limit
end

local function tree(depth)
    if depth == 0 then
        return { value = dice(1000) }
    end
    return { left = tree(depth - 1), right = tree(depth - 1), value = depth }
end

local function sum(t)
    return t and t.value + sum(t.left) + sum(t.right) or 0
end

local total, kept, length = 0, {}, 0
for round = 1, rounds do
    kept[(round - 1) % 8 + 1] = tree(11)
    total = total + sum(kept[dice(#kept) + 1])
    local words = {}
    for i = 1, 3000 do
        words[i] = string.rep(string.char(97 + dice(26)), dice(40)) .. i
    end
    table.sort(words)
    local text = table.concat(words, " ")
    for word in text:gmatch("a+%d+") do
        length = length + #word
    end
end
print(rounds .. " rounds", total, length)
