-- wrk script of the bench driver. Arguments after "--":
--   MODE PATH METHOD LIMIT TAG IDS TEXT IDFILE [COUNT=NEEDLE ...]
-- A METHOD that begins with "0.3:" is asked for in the dialect of A2A 0.3.
-- MODE is send, stream, get or list. LIMIT > 0 stops the run after that many
-- responses (wrk itself only knows durations, so the script interrupts it); 0
-- leaves the duration in charge. TAG makes message ids of one run differ from
-- those of another; IDS is plain or uuid. Every COUNT=NEEDLE asks that a response
-- body holds the needle exactly so many times; without any, bodies are not looked
-- at. Requests are built as raw bytes so that the generator costs as little as possible.
local ffi = require("ffi")
ffi.cdef([[
int kill(int pid, int sig); int getpid(void);
struct tv { long s; long us; }; int gettimeofday(struct tv *tv, void *tz);
]])
local tv = ffi.new("struct tv")
local function now_us()
  ffi.C.gettimeofday(tv, nil)
  return tonumber(tv.s) * 1e6 + tonumber(tv.us)
end
-- Globals, because wrk hands them from the worker to done().
t_first, t_limit, wrong, sample = 0, 0, 0, ""
local mode, path, method, limit, text, idform
local version, role, tag, config = "A2A-Version: 1.0\r\n", "ROLE_USER", "", '"returnImmediately":false'
local ids, nids, n, got = {}, 0, 0, 0
local pre, post
local needles = {}

local function http(body)
  return "POST " .. path .. " HTTP/1.1\r\nHost: " .. wrk.host ..
    "\r\n" .. version .. "Content-Type: application/json\r\nAccept: " ..
    (mode == "stream" and "text/event-stream" or "application/json") ..
    "\r\nContent-Length: " .. #body .. "\r\n\r\n" .. body
end

local function count(body, needle)
  local c, at = 0, 1
  while true do
    local _, e = string.find(body, needle, at, true)
    if not e then return c end
    c, at = c + 1, e + 1
  end
end

local function look(status, body)
  local bad = status ~= 200 and ("status " .. status)
  for _, x in ipairs(needles) do
    if bad then break end
    local c = count(body, x[2])
    if c ~= x[1] then bad = c .. " times instead of " .. x[1] .. ": " .. x[2] end
  end
  if bad then
    wrong = wrong + 1
    if sample == "" then sample = bad .. " in " .. string.sub(body, 1, 300) end
  end
end

local threads = {}
function setup(t) threads[#threads + 1] = t end

function init(args)
  mode, path, method = args[1], args[2], args[3]
  limit, text = tonumber(args[4]), args[7]
  if string.sub(method, 1, 4) == "0.3:" then
    method = string.sub(method, 5)
    version, role, tag, config = "", "user", '"kind":"text",', '"blocking":true'
  end
  if args[6] == "uuid" then
    idform = "000" .. args[5] .. "-0000-4000-8000-000#########"
  else
    idform = "m-" .. args[5] .. "-#########"
  end
  if mode == "send" or mode == "stream" then
    local body = '{"jsonrpc":"2.0","id":1,"method":"' .. method ..
      '","params":{"message":{"messageId":"' .. idform .. '","role":"' .. role .. '","parts":[{' .. tag .. '"text":"' ..
      text .. '"}]},"configuration":{' .. config .. '}}}'
    local full = http(body)
    local i = string.find(full, "#########", 1, true)
    pre, post = string.sub(full, 1, i - 1), string.sub(full, i + 9)
  elseif mode == "get" then
    for line in io.lines(args[8]) do
      ids[#ids + 1] = http('{"jsonrpc":"2.0","id":1,"method":"' .. method .. '","params":{"id":"' .. line .. '"}}')
    end
    nids = #ids
  else
    pre = http('{"jsonrpc":"2.0","id":1,"method":"' .. method .. '","params":{"pageSize":50}}')
  end
  for i = 9, #args do
    local c, needle = string.match(args[i], "^(%d+)=(.*)$")
    needles[#needles + 1] = { tonumber(c), needle }
  end
  if limit > 0 or #needles > 0 then
    response = function(status, _, body)
      if #needles > 0 then look(status, body) end
      got = got + 1
      if got == 1 then t_first = now_us() end
      if got == limit then
        t_limit = now_us()
        ffi.C.kill(ffi.C.getpid(), 2)
      end
    end
  end
end

function request()
  n = n + 1
  if mode == "get" then return ids[n % nids + 1] end
  if mode == "list" then return pre end
  return pre .. string.format("%09d", n) .. post
end

function done(s, lat)
  local e, t = s.errors, threads[1]
  local span = t:get("t_limit") - t:get("t_first")
  if t:get("wrong") > 0 then
    io.write("SAMPLE " .. string.gsub(t:get("sample"), "%s+", " ") .. "\n")
  end
  io.write(string.format(
    'RESULT {"requests":%d,"duration_us":%d,"bytes":%d,"err_connect":%d,"err_read":%d,"err_write":%d,"err_timeout":%d,"err_status":%d,"err_wrong":%d,"mean_us":%.1f,"p50_us":%d,"p90_us":%d,"p99_us":%d,"p999_us":%d,"max_us":%d,"limit_us":%d}\n',
    s.requests, s.duration, s.bytes, e.connect, e.read, e.write, e.timeout, e.status, t:get("wrong"),
    lat.mean, lat:percentile(50), lat:percentile(90), lat:percentile(99), lat:percentile(99.9), lat.max, span))
end
