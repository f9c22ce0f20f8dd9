#!/usr/bin/env python3
"""Benchmark driver for A2A servers (JSON-RPC binding, protocol 1.0).

Starts each server, waits until its agent card can be fetched, checks that it
answers correctly, drives it with wrk, samples its CPU and resident memory, and
prints one JSON document plus tables of ratios against a baseline.

Because the machine is assumed to be shared, servers are interleaved: every
round visits every server (in rotating order), and a ratio is the median over
rounds of (server / baseline) taken inside the same round.

    bench/run                        every bar, with the peers that are built
    bench/run --quick                the short form for CI
    bench/run --against BINARY       this build of Sabir beside another one, and the floor
    bench/run --self-test            checks the computations of --against
    bench/bench.py --peers sabir,floor,agntcy --workload send --baseline floor
    bench/bench.py --server mine="path/to/server {addr}" --peers floor,tomtom \\
                   --workload send,get,stream --baseline floor

A server command may contain {addr} (host:port) or {host} and {port}, and {tmp}
for a scratch folder. Only the Python standard library is needed, plus wrk and
taskset in PATH.

Exit status: 0 measured, 1 a wrong answer or an error of Sabir or of a reference
server, or with --against and --gate a build that costs more than the limit
allows, 2 something is missing, 3 a bar was missed and --gate was given.
"""

import argparse
import collections
import contextlib
import datetime
import itertools
import json
import os
import platform
import re
import resource
import selectors
import shlex
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

import against
import selftest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
BIN = os.environ.get('BENCH_BIN', os.path.join(HERE, 'target', 'release'))
SABIR = os.path.abspath(os.environ.get('SABIR_BIN', os.path.join(ROOT, 'target', 'release', 'sabir')))
WORKDIR = os.environ.get('BENCH_TMP', os.path.join(HERE, '.work'))
TEXT = 'hello from the load generator, please echo this line back'
TICK = os.sysconf('SC_CLK_TCK')

V1 = dict(
    send='SendMessage', stream='SendStreamingMessage', get='GetTask',
    list='ListTasks', subscribe='SubscribeToTask',
)
V03 = dict(
    send='message/send', stream='message/stream', get='tasks/get',
    list='tasks/list', subscribe='tasks/resubscribe',
)
# The same, spoken in the dialect of 0.3 as well: other names alone are what some servers mean by it.
SPOKEN_V03 = {k: f'0.3:{v}' for k, v in V03.items()}


class Server:
    def __init__(self, cmd, cwd=HERE, env=None, path='/', stream_path=None, methods=V1,
                 card='/.well-known/agent-card.json', no=(), note='', kept_env=None, events=None, needs=None,
                 durable=False):
        self.cmd, self.cwd, self.env = cmd, cwd, env or {}
        self.path, self.stream_path = path, stream_path or path
        self.methods, self.card, self.no, self.note = methods, card, set(no), note
        # Extra environment for the tests that need every task kept.
        self.kept_env = kept_env or {}
        # Exact number of events per stream; None: twelve or more.
        self.events = events
        # Whether what it acknowledged must be there after kill -9.
        self.durable = durable
        # The file whose absence means that this server was not built.
        self.needs = needs or shlex.split(cmd)[0]


def sabir(durability, methods=V1, binary=SABIR):
    return Server(
        f'{shlex.quote(binary)} serve --config {shlex.quote(HERE)}/sabir.toml --listen {{addr}} --data {{tmp}}/data',
        env={'SABIR_STORE__DURABILITY': durability}, events=13, needs=binary, durable=True, methods=methods)


def built(binary, args='{addr}', **kw):
    return Server(f'{shlex.quote(BIN)}/{binary} {args}', needs=f'{BIN}/{binary}', **kw)


PY = os.path.join(HERE, '.venv', 'bin', 'python')
SEND_ONLY = {'get', 'stream', 'list', 'idle', 'growth', 'memory', 'subscribe'}
NO_STORE = {'get', 'list', 'growth', 'memory', 'subscribe'}
PEERS = {
    'sabir': sabir('full'),
    'sabir_normal': sabir('normal'),
    'sabir_v03': sabir('full', SPOKEN_V03),
    'sabir_normal_v03': sabir('normal', SPOKEN_V03),
    # Reference points.
    'rawtcp': built('rawtcp', no=SEND_ONLY),
    'fixed': built('fixed', no=SEND_ONLY),
    'floor': built('floor', no=NO_STORE),
    'floor_chan': built('floor_chan', no=NO_STORE),
    'store': built('store', no={'subscribe'}),
    'wal': built('wal', '{addr} {tmp}/wal.log fdatasync', no=SEND_ONLY),
    'wal_pre': built('wal', '{addr} {tmp}/wal.log prealloc', no=SEND_ONLY),
    'wal_nosync': built('wal', '{addr} {tmp}/wal.log nosync', no=SEND_ONLY),
    # Peers.
    'agntcy': built('bench-agntcy', note='as documented, Nagle on'),
    'agntcy_nd': built('bench-agntcy', env={'BENCH_NODELAY': '1'}, note='with TCP_NODELAY'),
    'tomtom': built('bench-tomtom', kept_env={'BENCH_UNCAPPED': '1'}),
    'ra2a': built('bench-ra2a', env={'BENCH_NODELAY': '1'}, stream_path='/stream', methods=V03, no={'stream'},
                  note='0.3 method names; streams on /stream and never ends one'),
    'python': Server(f'{shlex.quote(PY)} echo.py {{addr}} 1', cwd=os.path.join(HERE, 'python'), needs=PY),
    'python_uv': Server(f'{shlex.quote(PY)} echo.py {{addr}} 1 uvloop', cwd=os.path.join(HERE, 'python'), needs=PY),
    'node': Server('node echo.js {addr}', cwd=os.path.join(HERE, 'node'), env={'NODE_ENV': 'production'},
                   needs=os.path.join(HERE, 'node', 'node_modules')),
}
# A failure of one of these fails the run; a peer that fails is only reported.
OURS = {'sabir', 'sabir_normal', 'sabir_v03', 'sabir_normal_v03', 'rawtcp', 'fixed', 'floor', 'floor_chan', 'store'}
FAULTS = []
# What ends the measuring of a server that answers wrongly, or not at all.
UNEXPECTED = (RuntimeError, OSError, ValueError, KeyError, TypeError, AttributeError)


class Fault(RuntimeError):
    """A wrong answer or an error that ends a bench."""


def fault(server, work, text):
    """Remembers an error or a wrong answer."""
    text = str(text).replace(ROOT, '.')[:500]
    FAULTS.append(dict(server=server, work=work, text=text))
    print(f'  FAULT {work} {server}: {text}', file=sys.stderr, flush=True)


# ---------------------------------------------------------------- processes


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def descendants(pid):
    kids = collections.defaultdict(list)
    for d in os.listdir('/proc'):
        if d.isdigit():
            try:
                with open(f'/proc/{d}/stat') as f:
                    kids[int(f.read().rsplit(')', 1)[1].split()[1])].append(int(d))
            except (OSError, IndexError):
                pass
    out, todo = [], [pid]
    while todo:
        p = todo.pop()
        out.append(p)
        todo += kids[p]
    return out


def cpu_s(pids):
    t = 0
    for p in pids:
        try:
            with open(f'/proc/{p}/stat') as f:
                v = f.read().rsplit(')', 1)[1].split()
            t += int(v[11]) + int(v[12])
        except OSError:
            pass
    return t / TICK


NICE = None


def prioritise(pid):
    """Raises a session's scheduling weight (needs root); a no-op without --nice.

    Where the kernel groups tasks by session, plain nice values do not compete
    across sessions, so both knobs are set.
    """
    if NICE is None:
        return
    try:
        os.setpriority(os.PRIO_PROCESS, pid, NICE)
        with open(f'/proc/{pid}/autogroup', 'w') as f:
            f.write(str(NICE))
    except OSError:
        pass


def rss_kb(pids):
    t = 0
    for p in pids:
        try:
            with open(f'/proc/{p}/status') as f:
                m = re.search(r'VmRSS:\s+(\d+)', f.read())
                t += int(m.group(1)) if m else 0
        except OSError:
            pass
    return t


def machine_cpu():
    with open('/proc/stat') as f:
        v = [int(x) for x in f.readline().split()[1:9]]
    idle, steal = v[3] + v[4], v[7]
    return (sum(v) - idle - steal) / TICK, steal / TICK


class CpuWindow:
    """The CPU time that a server, the load generator and other processes use while the window is open.

    The generator is every child process that is waited for before the window closes. What `upstream`, other processes
    of the bench, uses belongs to no one of the three.
    """

    def __init__(self, pids, upstream=()):
        self.pids, self.upstream = pids, upstream
        self.opened = self.closed = self.read()

    def read(self):
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return (time.monotonic(), cpu_s(self.pids), children.ru_utime + children.ru_stime, cpu_s(self.upstream),
                *machine_cpu())

    def close(self):
        self.closed = self.read()

    def figures(self, requests):
        """What was used, and how much of it by the server for each of so many requests."""
        used = (after - before for after, before in zip(self.closed, self.opened))
        seconds, server, generator, upstream, machine, steal = used
        return dict(
            server_cores=server / seconds, gen_cores=generator / seconds,
            cpu_us_per_req=server * 1e6 / requests if requests else 0.0,
            foreign_cores=max(0.0, (machine - server - generator - upstream) / seconds), steal_cores=steal / seconds)


class Running:
    # The processes of servers that this one calls.
    upstream = ()

    def __init__(self, name, srv, pin, kept=False):
        self.name, self.srv, self.pin = name, srv, pin
        self.port = free_port()
        os.makedirs(WORKDIR, exist_ok=True)
        self.tmp = tempfile.mkdtemp(prefix='run-', dir=WORKDIR)
        self.env = dict(os.environ, **srv.env)
        if kept:
            self.env.update(srv.kept_env)
        self.log = open(os.path.join(self.tmp, 'log'), 'wb')
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    def start(self):
        """Starts the process (again), on the same address and data."""
        cmd = [x.format(addr=f'127.0.0.1:{self.port}', host='127.0.0.1', port=self.port, tmp=self.tmp)
               for x in shlex.split(self.srv.cmd)]
        self.p = None
        self.t0 = time.monotonic()
        self.p = subprocess.Popen((['taskset', '-c', self.pin] if self.pin else []) + cmd, cwd=self.srv.cwd,
                                  env=self.env, stdout=self.log, stderr=self.log, start_new_session=True)
        prioritise(self.p.pid)
        self.cold_s = self.wait()
        return self.cold_s

    def wait(self, limit=30):
        req = f'GET {self.srv.card} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n'.encode()
        end = time.monotonic() + limit
        while time.monotonic() < end:
            if self.p.poll() is not None:
                raise RuntimeError(f'{self.name} exited {self.p.returncode}: ' + self.tail())
            try:
                with socket.create_connection(('127.0.0.1', self.port), timeout=2) as s:
                    s.sendall(req)
                    if b' 200' in s.recv(64):
                        return time.monotonic() - self.t0
            except OSError:
                pass
            time.sleep(0.001)
        raise RuntimeError(f'{self.name} not ready: ' + self.tail())

    def tail(self):
        with open(os.path.join(self.tmp, 'log'), 'rb') as f:
            return f.read()[-400:].decode(errors='replace')

    def pids(self):
        return descendants(self.p.pid)

    def end(self, sig=signal.SIGKILL, limit=15):
        """Ends the process and keeps its data; False when it had to be killed."""
        if not self.p or self.p.poll() is not None:
            return True
        asked = True
        try:
            os.killpg(self.p.pid, sig)
            self.p.wait(limit)
        except ProcessLookupError:
            self.p.wait()
        except subprocess.TimeoutExpired:
            asked = False
            os.killpg(self.p.pid, signal.SIGKILL)
            self.p.wait()
        return asked

    def stop(self):
        self.end()
        self.log.close()
        shutil.rmtree(self.tmp, ignore_errors=True)

    # -- small blocking client used for checks, not for load

    def raw(self, method, params, path=None, sse=False, timeout=10):
        spoken = method.removeprefix('0.3:')
        version = 'A2A-Version: 1.0\r\n' if spoken == method else ''
        body = json.dumps({'jsonrpc': '2.0', 'id': 1, 'method': spoken, 'params': params}).encode()
        accept = 'text/event-stream' if sse else 'application/json'
        return (
            f'POST {path or self.srv.path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{version}'
            f'Content-Type: application/json\r\nAccept: {accept}\r\nContent-Length: {len(body)}\r\n\r\n'
        ).encode() + body

    def call(self, method, params, path=None, sse=False, timeout=10):
        """One request on its own connection; returns the whole response text."""
        with socket.create_connection(('127.0.0.1', self.port), timeout=timeout) as s:
            s.sendall(self.raw(method, params, path, sse))
            buf = b''
            while True:
                try:
                    d = s.recv(65536)
                except socket.timeout:
                    break
                if not d:
                    break
                buf += d
                head, sep, rest = buf.partition(b'\r\n\r\n')
                if sep:
                    m = re.search(rb'content-length:\s*(\d+)', head, re.I)
                    if m and len(rest) >= int(m.group(1)):
                        break
                    if b'chunked' in head.lower() and rest.endswith(b'0\r\n\r\n'):
                        break
        return buf.decode(errors='replace')

    def message(self, text):
        # An id as long as those of load.lua, so that answers can be compared by size.
        if self.srv.methods is SPOKEN_V03:
            part = {'kind': 'text', 'text': text}
            return {
                'message': {'messageId': message_id(next(SERIAL)), 'role': 'user', 'parts': [part]},
                'configuration': {'blocking': True},
            }
        return {
            'message': {'messageId': message_id(next(SERIAL)), 'role': 'ROLE_USER', 'parts': [{'text': text}]},
            'configuration': {'returnImmediately': False},
        }

    def result(self, method, params):
        """The result member of one call; anything but a 200 with a result is an error."""
        r = self.call(self.srv.methods[method], params)
        head, _, body = r.partition('\r\n\r\n')
        if not re.match(r'HTTP/1.1 200', head):
            raise RuntimeError(f'{self.name}: {method}: {r[:400]}')
        if re.search(r'transfer-encoding:\s*chunked', head, re.I):
            body = dechunk(body)
        try:
            j = json.loads(body)
            if j['id'] != 1 or 'error' in j:
                raise KeyError
            return j['result'], r, body
        except (ValueError, KeyError):
            raise RuntimeError(f'{self.name}: {method}: bad answer: {r[:600]}') from None

    def good(self, result, method='send'):
        """The task in a result, which must be completed and hold the echoed text."""
        t = result.get('task', result)
        texts = [p.get('text') for a in t.get('artifacts') or [] for p in a.get('parts') or []]
        if not state_of(t).endswith('COMPLETED') or ''.join(filter(None, texts)) != TEXT:
            raise RuntimeError(f'{self.name}: {method}: not a completed echo: {json.dumps(t)[:600]}')
        return t

    def check(self):
        """The echo must come back as a completed task holding the text; returns what answers look like."""
        res, raw, body = self.result('send', self.message(TEXT))
        self.good(res)
        return dict(size=len(raw), needles=needles(body, TEXT, 'COMPLETED', 'completed', '"error"'))

    def check_get(self, tid):
        res, raw, body = self.result('get', {'id': tid})
        if self.good(res, 'get')['id'] != tid:
            raise RuntimeError(f'{self.name}: get: another task than {tid}: {body[:300]}')
        return dict(size=len(raw), needles=needles(body, TEXT, 'COMPLETED', 'completed', '"error"'))

    def check_list(self, at_least=0):
        res, raw, body = self.result('list', {'pageSize': 50})
        tasks, total = res.get('tasks') or [], res.get('totalSize')
        want = min(50, at_least)
        if len(tasks) < want or len({t['id'] for t in tasks}) != len(tasks):
            raise RuntimeError(f'{self.name}: list: {len(tasks)} tasks of {at_least}: {body[:300]}')
        if isinstance(total, int) and 0 <= total < at_least and self.name in OURS:
            raise RuntimeError(f'{self.name}: list: totalSize {total}, but {at_least} were acknowledged')
        return dict(size=len(raw), needles={})

    def check_stream(self):
        """One stream: a working status, ten chunks in order, completed at the end."""
        r = self.call(self.srv.methods['stream'], self.message('stream ' + TEXT), self.srv.stream_path,
                      sse=True, timeout=3)
        head, _, body = r.partition('\r\n\r\n')
        chunked = re.search(r'transfer-encoding:\s*chunked', head, re.I)
        ended = r.endswith('0\r\n\r\n') if chunked else True
        text = dechunk(body) if chunked else body
        evs = [json.loads(x) for x in re.findall(r'^data:\s*(.*)$', text, re.M)]
        bad = None
        if not re.match(r'HTTP/1.1 200', head) or 'text/event-stream' not in head.lower():
            bad = 'no event stream'
        elif not ended:
            bad = 'did not end'
        elif any(e.get('id') != 1 or 'result' not in e for e in evs):
            bad = 'an event without result'
        else:
            res = [e['result'] for e in evs]
            chunks = [''.join(p.get('text', '') for p in e['artifactUpdate']['artifact']['parts'])
                      for e in res if 'artifactUpdate' in e]
            last = res[-1].get('statusUpdate') or res[-1].get('task') or {} if res else {}
            if len(evs) != self.srv.events if self.srv.events else len(evs) < 12:
                bad = f'{len(evs)} events instead of {self.srv.events or "12 or more"}'
            elif self.srv.events == 13 and 'task' not in res[0]:
                bad = 'no opening task event'
            elif chunks != [f'chunk {i} of stream {TEXT}' for i in range(10)]:
                bad = f'wrong chunks: {chunks}'
            elif not state_of(last).endswith('COMPLETED'):
                bad = 'not completed at the end'
        if bad:
            raise RuntimeError(f'{self.name}: stream: {bad}: {r[:300]} ... {r[-300:]}')
        return dict(size=len(r), events=len(evs), needles=needles(
            text, 'data:', '"result"', 'chunk 0 of', 'chunk 9 of', 'COMPLETED', 'completed', '"error"'))

    def new_task(self):
        return self.good(self.result('send', self.message(TEXT))[0])['id']


def dechunk(body):
    out = []
    while body:
        n, sep, rest = body.partition('\r\n')
        if not sep:
            break
        size = int(n.split(';')[0], 16)
        out.append(rest[:size])
        body = rest[size + 2:]
        if size == 0:
            break
    return ''.join(out)


def state_of(t):
    return str((t.get('status') or {}).get('state', '')).upper()


def needles(body, *words):
    """How often each word occurs in an answer that was found good; load.lua asks the same of the others."""
    return {w: body.count(w) for w in words}


# One number per wrk run and per checking call, so that no message id is used twice on a server.
SERIAL = itertools.count(int(time.time()) & 0x7FFFF)
IDS = 'plain'


def message_id(n):
    if IDS == 'uuid':
        return f'000{n & 0xFFFFF:05x}-0000-4000-8000-000{0:09d}'
    return f'm-{n & 0xFFFFF:05x}-{0:09d}'


# --------------------------------------------------------------------- load


WRK = os.environ.get('WRK', 'wrk')
RETRIES = 2


def wrk(run, mode, conns, secs, gen_pin, limit=0, text=TEXT, idfile='-', retries=None, max_foreign=0.25, expect=None):
    """Runs wrk once and returns its numbers with CPU accounting attached."""
    srv = run.srv
    path = srv.stream_path if mode == 'stream' else srv.path
    dur = max(1, int(round(secs)))
    best, errs = None, 0
    for _ in range((RETRIES if retries is None else retries) + 1):
        argv = (['taskset', '-c', gen_pin] if gen_pin else []) + [
            WRK, '-t1', f'-c{conns}', f'-d{dur}s', '--timeout', '10s', '-s', os.path.join(HERE, 'load.lua'),
            f'http://127.0.0.1:{run.port}', '--', mode, path, srv.methods[mode], str(limit),
            f'{next(SERIAL) & 0xFFFFF:05x}', IDS, text, idfile] + [f'{n}={w}' for w, n in (expect or {}).items()]
        pids = run.pids()
        window = CpuWindow(pids, run.upstream)
        p = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        prioritise(p.pid)
        try:
            out = p.stdout.read().decode(errors='replace')
        except BaseException:
            p.kill()
            raise
        p.wait()
        window.close()
        m = re.search(r'RESULT (\{.*\})', out)
        if not m:
            raise RuntimeError(f'wrk: {out[-500:]}')
        r = json.loads(m.group(1))
        wall = r['duration_us'] / 1e6
        n = max(1, r['requests'])
        bad = {k[4:]: v for k, v in r.items() if k.startswith('err_') and v}
        errs += sum(bad.values())
        if bad or not r['requests']:
            why = re.search(r'^SAMPLE (.*)', out, re.M)
            fault(run.name, mode, f'{conns} connections, {r["requests"]} responses, errors {bad}'
                  + (f': {why.group(1)}' if why else ''))
        r.update(
            conns=conns, rps=r['requests'] / wall, bytes_per=r['bytes'] / n, errors=errs, rss_kb=rss_kb(pids),
            **window.figures(r['requests']))
        if limit and r['limit_us'] > 0:
            r['rps'] = limit / (r['limit_us'] / 1e6)
        if best is None or r['foreign_cores'] < best['foreign_cores']:
            best = r
        if best['foreign_cores'] <= max_foreign or limit:
            break
    best['errors'] = errs
    return best


def wrk_script(server, pid, url, script, headers, conns, secs, pin):
    """Runs wrk with a script that builds its requests and looks at no answer. `pin` are the words before the command."""
    words = [*pin, WRK, '-t1', f'-c{conns}', f'-d{secs}s', '-s', script]
    for line in headers:
        words += ['-H', line]
    window = CpuWindow(descendants(pid))
    out = subprocess.run([*map(str, words), url], capture_output=True, text=True, check=True).stdout
    window.close()
    count = int(re.search(r'(\d+) requests in', out).group(1))
    if 'Non-2xx' in out or 'Socket errors' in out or not count:
        raise Fault(f'{server}: {" ".join(out.split())[-300:]}')
    return dict(requests=count, rps=float(re.search(r'Requests/sec:\s+([\d.]+)', out).group(1)), **window.figures(count))


def verify(run, mode, conns, a, like, text=TEXT, idfile='-'):
    """A short run under load in which the body of every answer is looked at."""
    return wrk(run, mode, conns, 3, a.gen_pin, limit=2000, text=text, idfile=idfile, retries=0, expect=like['needles'])


def same_size(run, mode, r, like):
    """Measured runs do not look into bodies; their mean size must be that of a good answer."""
    slack = (0.05 if mode == 'stream' else 0.02) + r['conns'] / max(1, r['requests'])
    if r['requests'] and abs(r['bytes_per'] / like['size'] - 1) > slack:
        fault(run.name, mode, f'answers of {r["bytes_per"]:.0f} bytes on average; a good one has {like["size"]}')


def closed(s):
    """Whether the server ended a held stream."""
    try:
        while True:
            if not (d := s.recv(65536)) or d.endswith(b'0\r\n\r\n'):
                return True
    except BlockingIOError:
        return False
    except OSError:
        return True


def open_streams(run, n, method, params_of, path, secs=60):
    """Opens n streams, waits for the first event on each; returns the sockets."""
    sel, socks, ready = selectors.DefaultSelector(), [], 0
    end = time.monotonic() + secs
    i = 0
    while ready < n and time.monotonic() < end:
        # Keep a limited number in flight so that slow servers are not flooded.
        while i < n and i - ready < 64:
            s = socket.create_connection(('127.0.0.1', run.port), timeout=10)
            s.sendall(run.raw(method, params_of(i), path, sse=True))
            s.setblocking(False)
            sel.register(s, selectors.EVENT_READ, [b''])
            socks.append(s)
            i += 1
        for key, _ in sel.select(0.2):
            try:
                d = key.fileobj.recv(8192)
            except BlockingIOError:
                continue
            key.data[0] += d
            if not d or b'data:' in key.data[0] or b'error' in key.data[0]:
                sel.unregister(key.fileobj)
                ready += b'data:' in key.data[0]
                if not d or b'data:' not in key.data[0]:
                    raise RuntimeError('stream refused: ' + key.data[0][-300:].decode(errors='replace'))
                if key.data[0].endswith(b'\r\n0\r\n\r\n'):
                    raise RuntimeError('held stream ended at once: ' + key.data[0][-300:].decode(errors='replace'))
    sel.close()
    if ready < n:
        raise RuntimeError(f'only {ready} of {n} streams opened')
    return socks


# ---------------------------------------------------------------- workloads


def prepare(run, mode, a):
    """Checks and warms a server; returns what a good answer looks like, the text to send and the file of task ids."""
    text, idfile = TEXT, '-'
    if mode == 'stream':
        text = 'stream ' + TEXT
        like = run.check_stream()
    else:
        like = run.check()
    if mode in ('get', 'list'):
        ids = [run.new_task() for _ in range(100)]
        idfile = os.path.join(run.tmp, 'ids')
        with open(idfile, 'w') as f:
            f.write('\n'.join(ids) + '\n')
        for i in ids if mode == 'get' else ():
            like = run.check_get(i)
        if mode == 'list':
            like = run.check_list(101)
    if a.warm:
        wrk(run, mode, 16, a.warm, a.gen_pin, text=text, idfile=idfile, retries=0)
    return like, text, idfile


def w_load(mode):
    def go(run, a):
        out = []
        like, text, idfile = prepare(run, mode, a)
        for c in a.conns:
            verify(run, mode, c, a, like, text, idfile)
            r = wrk(run, mode, c, a.secs, a.gen_pin, text=text, idfile=idfile, max_foreign=a.max_foreign)
            same_size(run, mode, r, like)
            verify(run, mode, c, a, like, text, idfile)
            r['events_per_stream'] = like.get('events', 1)
            r['events_s'] = r['rps'] * r['events_per_stream']
            out.append(r)
        return out
    return go


def w_cold(run, a):
    run.check()
    return [dict(conns=0, cold_ms=run.cold_s * 1e3, rss_kb=rss_kb(run.pids()))]


def fill(run, n, a, budget, slices=None, like=None):
    """Adds n tasks, within a time budget; returns how many were really added."""
    done, end = 0, time.monotonic() + budget
    while done < n and time.monotonic() < end and rss_kb(run.pids()) < a.max_rss_gb * 2**20:
        # In slices, so that a server that hoards memory cannot take the machine down.
        r = wrk(run, 'send', 64, max(1, end - time.monotonic()), a.gen_pin,
                limit=min(n - done, 25_000), retries=0, expect=like and like['needles'])
        done += r['requests']
        if slices is not None:
            slices.append(r)
        if r['requests'] == 0:
            break
    return done


def w_memory(run, a):
    run.check()
    time.sleep(0.5)
    idle = rss_kb(run.pids())
    n = fill(run, a.keep, a, a.budget)
    time.sleep(0.5)
    after = rss_kb(run.pids())
    return [dict(conns=0, idle_rss_kb=idle, tasks=n, rss_kb=after, bytes_per_task=(after - idle) * 1024 / max(1, n))]


def w_idle(run, a):
    out = []
    for n in a.streams:
        base = rss_kb(run.pids())
        socks = open_streams(run, n, run.srv.methods['stream'],
                             lambda i: run.message(f'hold {i}'), run.srv.stream_path)
        time.sleep(1)
        now = rss_kb(run.pids())
        out.append(dict(conns=n, rss_kb=now, base_kb=base, kb_per_stream=(now - base) / n))
        gone = sum(map(closed, socks))
        if gone:
            fault(run.name, 'idle', f'{gone} of {n} held streams were closed')
        for s in socks:
            s.close()
        time.sleep(1)
        out[-1]['rss_after_close_kb'] = rss_kb(run.pids())
        if n != a.streams[-1]:
            # A fresh process for the next size, so that freed memory is not reused.
            run.restart()
    return out


def w_subscribe(run, a):
    s0 = open_streams(run, 1, run.srv.methods['stream'], lambda i: run.message('hold one'), run.srv.stream_path)[0]
    s0.setblocking(True)
    s0.settimeout(1)
    # The first event of the held stream has been consumed; ask the list for the id.
    r = run.call(run.srv.methods['list'], {'pageSize': 10})
    ids = re.findall(r'"id"\s*:\s*"([0-9a-f-]{36})"', r)
    if not ids:
        raise RuntimeError('no task id: ' + r[-300:])
    out = []
    for n in a.streams:
        base = rss_kb(run.pids())
        socks = open_streams(run, n, run.srv.methods['subscribe'], lambda i: {'id': ids[0]}, run.srv.stream_path)
        time.sleep(1)
        now = rss_kb(run.pids())
        out.append(dict(conns=n, rss_kb=now, base_kb=base, kb_per_stream=(now - base) / n))
        for s in socks:
            s.close()
        break
    s0.close()
    return out


def w_growth(run, a):
    run.check()
    wrk(run, 'send', 16, 1, a.gen_pin, limit=1000, retries=0)
    have, out = 1000, []
    for size in a.sizes:
        if size > have:
            have += fill(run, size - have, a, a.budget)
            if have < size * 0.98:
                out.append(dict(conns=size, reached=have, note='time or memory budget ended'))
                break
        n = max(2000, min(20000, int(a.probe)))
        r = wrk(run, 'send', 64, 20, a.gen_pin, limit=n, retries=0)
        have += r['requests']
        row = dict(conns=size, tasks=have, rps=r['rps'], p50_us=r['p50_us'], p99_us=r['p99_us'],
                   cpu_us_per_req=r['cpu_us_per_req'], errors=r['errors'], foreign_cores=r['foreign_cores'],
                   rss_kb=rss_kb(run.pids()))
        if 'list' not in run.srv.no:
            l = wrk(run, 'list', 1, 20, a.gen_pin, limit=20, retries=0)
            row.update(list_p50_us=l['p50_us'], list_max_us=l['max_us'], list_bytes=l['bytes_per'],
                       list_errors=l['errors'])
        out.append(row)
    return out


WORK = {
    'send': w_load('send'), 'translate': w_load('send'), 'translate_normal': w_load('send'),
    'get': w_load('get'), 'stream': w_load('stream'), 'list': w_load('list'),
    'cold': w_cold, 'memory': w_memory, 'idle': w_idle, 'subscribe': w_subscribe, 'growth': w_growth,
}
KEPT = {'memory', 'growth', 'idle', 'subscribe'}
# The number a ratio is formed from, and whether larger is better.
KEY = {
    'send': ('rps', True), 'translate': ('rps', True), 'translate_normal': ('rps', True), 'get': ('rps', True), 'stream': ('rps', True), 'list': ('rps', True),
    'cold': ('cold_ms', False), 'memory': ('bytes_per_task', False), 'idle': ('kb_per_stream', False),
    'subscribe': ('kb_per_stream', False), 'growth': ('rps', True),
}


def summarise(rows):
    """Median of every numeric field over the rounds."""
    out = {}
    for k in rows[0]:
        v = [r[k] for r in rows if isinstance(r.get(k), (int, float))]
        out[k] = statistics.median(v) if v else rows[0][k]
    out['rounds'] = len(rows)
    return out


def rotated(names, rnd):
    """The order of visits in a round: each server has its turn as the first one."""
    return names[rnd % len(names):] + names[:rnd % len(names)]


def rounds_of(work, servers, a):
    """Runs one workload: every round visits every server. Returns rows by server and connections, and errors."""
    rows = collections.defaultdict(lambda: collections.defaultdict(list))
    errors, names = {}, list(servers)
    for rnd in range(a.rounds):
        for name in rotated(names, rnd):
            srv = servers[name]
            if work in srv.no or name in errors:
                continue
            run = None
            try:
                run = Running(name, srv, a.srv_pin, kept=work in KEPT)

                def restart(run=run, name=name, srv=srv):
                    run.stop()
                    run.__init__(name, srv, a.srv_pin, kept=work in KEPT)
                run.restart = restart
                for r in WORK[work](run, a):
                    rows[name][r['conns']].append(r)
                    say(work, f'r{rnd} {name:12} c={r["conns"]:<6}', r)
            except UNEXPECTED as e:
                errors[name] = f'{type(e).__name__}: {e}'.replace(ROOT, '.')[:500]
                fault(name, work, errors[name])
            finally:
                if run:
                    run.stop()
    return rows, errors


def say(work, what, r):
    key = KEY[work][0]
    print(f'  {work} {what} {key}={r.get(key, float("nan")):.1f} '
          + ' '.join(f'{k}={r[k]:.2f}' for k in ('p50_us', 'p99_us', 'cpu_us_per_req', 'server_cores',
                                                 'gen_cores', 'foreign_cores', 'errors', 'rss_kb') if k in r),
          file=sys.stderr, flush=True)


def table(work, names, rows, errors, base):
    """Medians and ratios of one workload, as data and as a markdown table."""
    key, up = KEY[work]
    res, conns = {}, sorted({c for n in rows.values() for c in n})
    for name in names:
        for c in conns:
            rs = rows[name].get(c)
            if not rs:
                continue
            s = summarise(rs)
            bs = (rows[base].get(c) or []) if base else []
            s['ratios'] = [x[key] / y[key] for x, y in zip(rs, bs) if x.get(key) and y.get(key)]
            s['ratio'] = statistics.median(s['ratios']) if s['ratios'] else None
            res.setdefault(name, {})[c] = s
    head = f'## {work}: {key} ({"higher" if up else "lower"} is better' + (f'; ratio to {base})' if base else ')')
    out = ['', head, '', '| server | ' + ' | '.join(f'{c}' for c in conns) + ' |', '|---' * (len(conns) + 1) + '|']
    for name in names:
        cells = []
        for c in conns:
            s = res.get(name, {}).get(c)
            if not s or key not in s:
                cells.append('-')
                continue
            t = f'{s[key]:,.0f}' if s[key] >= 100 else f'{s[key]:.2f}'
            if s['ratio'] is not None:
                t += f' ({s["ratio"]:.2f}x)'
            if 'p50_us' in s:
                t += f' p50 {s["p50_us"] / 1000:.2f} p99 {s["p99_us"] / 1000:.2f} ms'
            if 'cpu_us_per_req' in s:
                t += f', {s["cpu_us_per_req"]:.1f} us CPU'
            cells.append(t)
        if name in res or name in errors:
            out.append(f'| {name} | ' + ' | '.join(cells) + ' |')
    out += [f'\n{n}: {e}' for n, e in errors.items()]
    return dict(key=key, baseline=base, servers=res, errors=errors), '\n'.join(out)


# -------------------------------------------------------------- the machine


def filesystem(path):
    """Type of the file system that holds a path."""
    best = ('', '?')
    with open('/proc/mounts') as f:
        for line in f:
            _, at, kind = line.split()[:3]
            if (os.path.realpath(path) + '/').startswith(at.rstrip('/') + '/') and len(at) >= len(best[0]):
                best = (at, kind)
    return best[1]


def sync_probe(n=200, limit=2.0):
    """Time of one small append followed by fdatasync, where the servers keep their data."""
    os.makedirs(WORKDIR, exist_ok=True)
    took, end = [], time.monotonic() + limit
    with tempfile.NamedTemporaryFile(prefix='sync-', dir=WORKDIR) as f:
        while len(took) < n and (time.monotonic() < end or len(took) < 5):
            t0 = time.monotonic()
            os.write(f.fileno(), bytes(4096))
            os.fdatasync(f.fileno())
            took.append((time.monotonic() - t0) * 1e6)
    took.sort()
    return dict(samples=len(took), p50_us=took[len(took) // 2], p99_us=took[len(took) * 99 // 100])


def machine():
    model = '?'
    with open('/proc/cpuinfo') as f:
        m = re.search(r'^model name\s*:\s*(.*)$', f.read(), re.M)
        model = m.group(1) if m else platform.machine()
    with open('/proc/meminfo') as f:
        mem = int(re.search(r'MemTotal:\s*(\d+)', f.read()).group(1)) / 2**20
    return dict(cpu=model, cpus=len(os.sched_getaffinity(0)), memory_gib=round(mem, 1), kernel=platform.release(),
                filesystem=filesystem(WORKDIR), sync=sync_probe())


# ----------------------------------------------------------------- the bars


class Bar:
    """One line of the table. `up`: more is better. `value` None: not measured, and `note` says why."""

    def __init__(self, name, value, bar, stretch, up, unit='x', note='', span=None, peer='', text=''):
        self.name, self.value, self.bar, self.stretch, self.up, self.unit = name, value, bar, stretch, up, unit
        self.note, self.span, self.peer, self.text = note, span, peer, text

    def met(self, limit):
        if self.value is None or limit is None:
            return None
        return self.value >= limit if self.up else self.value <= limit

    def doc(self):
        return dict(name=self.name, value=self.value, unit=self.unit, bar=self.bar, stretch=self.stretch,
                    higher_is_better=self.up, met=self.met(self.bar), stretch_met=self.met(self.stretch),
                    span=self.span, best_peer=self.peer, note=self.note)

    def row(self):
        def num(v, digits=2):
            return '-' if v is None else f'{v:.{digits}f}{self.unit}' if self.unit == 'x' else f'{v:.1f}{self.unit}'

        def yes(v):
            return '-' if v is None else 'yes' if v else '**no**'
        sign = '>= ' if self.up else '<= '
        got = self.text or num(self.value, 3)
        if self.span:
            got += f' ({self.span[0]:.2f}-{self.span[1]:.2f})'
        return (f'| {self.name} | {got} | {sign}{num(self.bar)} | {yes(self.met(self.bar))} | '
                + (f'{sign}{num(self.stretch)}' if self.stretch is not None else '-')
                + f' | {yes(self.met(self.stretch))} | {self.peer or "-"} | {self.note or ""} |')


BAR_HEAD = ['| Bar | Measured | Bar | Met | Stretch | Met | Best peer here | Note |', '|---|---|---|---|---|---|---|---|']
REFERENCES = {'floor', 'floor_chan', 'store', 'sabir', 'sabir_normal', 'sabir_v03', 'sabir_normal_v03'}


def ratio_bar(title, res, work, name, conns, bar, stretch, note=''):
    doc = res.get(work) or {}
    cell = (doc.get('servers') or {}).get(name, {}).get(conns)
    peers = {n: s[conns]['ratio'] for n, s in (doc.get('servers') or {}).items()
             if n not in REFERENCES and conns in s and s[conns]['ratio']}
    best = max(peers, key=peers.get) if peers else None
    peer = f'{best} {peers[best]:.2f}x' if best else ''
    if not cell or not cell['ratios']:
        return Bar(title, None, bar, stretch, True, peer=peer, note='not measured, see errors')
    base = doc['servers'][doc['baseline']][conns]
    if base['gen_cores'] > 0.95 and base['server_cores'] < 0.9:
        note = '; '.join(filter(None, [note, f'wrk was the limit of {doc["baseline"]}: the true ratio is lower']))
    return Bar(title, cell['ratio'], bar, stretch, True, note=note, peer=peer,
               span=(min(cell['ratios']), max(cell['ratios'])))


def settle(run):
    time.sleep(1)
    return rss_kb(run.pids())


def grow(name, srv, a):
    """What a store of `a.large` tasks costs, against one of `a.small` tasks and an empty one.

    The small and the large server live side by side, so that their numbers are
    taken in turns and a drifting machine touches both.
    """
    out = dict(small=a.small, large=a.large)
    small = large = empty = None
    try:
        small = Running(name, srv, a.srv_pin, kept=True)
        n = 1 + fill(small, a.small - 1, a, a.budget, like=small.check())
        out['rss_small_kb'] = settle(small)
        small.check_list(n)

        large = Running(name, srv, a.srv_pin, kept=True)
        like = large.check()
        ids, have, slices = [large.new_task() for _ in range(20)], 21, []
        out['rss_empty_kb'] = rss_kb(large.pids())
        have += fill(large, a.large - have, a, a.budget, slices, like)
        ids += [large.new_task() for _ in range(20)]
        have += 20
        out['rss_large_kb'] = settle(large)
        out['tasks'] = have
        if have < a.large * 0.98:
            out['short'] = f'only {have} tasks within {a.budget:.0f} s and {a.max_rss_gb:.0f} GiB'
        out['slices'] = [{k: r[k] for k in ('requests', 'rps', 'p50_us', 'p99_us', 'max_us', 'foreign_cores', 'rss_kb')}
                         for r in slices]
        like_list = large.check_list(have)
        print(f'  grow {name}: {have} tasks, {out["rss_small_kb"]} -> {out["rss_large_kb"]} KB', file=sys.stderr)

        lists, sends = [], []
        for rnd in range(a.rounds):
            pair = [small, large] if rnd % 2 == 0 else [large, small]
            got = {id(r): wrk(r, 'list', 1, a.secs, a.gen_pin, max_foreign=a.max_foreign) for r in pair}
            lists.append((got[id(small)], got[id(large)]))
        same_size(large, 'list', lists[-1][1], like_list)
        for rnd in range(a.rounds):
            empty = Running(name, srv, a.srv_pin, kept=True)
            like = empty.check()
            got = {}
            for r in [empty, large] if rnd % 2 == 0 else [large, empty]:
                have += verify(r, 'send', 64, a, like)['requests'] * (r is large)
                got[id(r)] = wrk(r, 'send', 64, a.secs, a.gen_pin, max_foreign=a.max_foreign, retries=0)
                same_size(r, 'send', got[id(r)], like)
            sends.append((got[id(empty)], got[id(large)]))
            have += got[id(large)]['requests']
            empty.stop()
            empty = None
        large.check_list(have)
        for key, pairs, field in (('list', lists, 'p50_us'), ('send', sends, 'rps')):
            out[key] = dict(ratios=[y[field] / x[field] for x, y in pairs if x[field]],
                            first=statistics.median(x[field] for x, _ in pairs),
                            last=statistics.median(y[field] for _, y in pairs))
            print(f'  grow {name}: {key} {field} {out[key]["first"]:.0f} -> {out[key]["last"]:.0f}', file=sys.stderr)

        # Killed in mid-air and started again, what was acknowledged must be there.
        out['tasks_at_restart'] = have
        large.end(signal.SIGKILL)
        out['cold_killed_ms'] = large.start() * 1e3
        if srv.durable:
            for i in ids:
                large.check_get(i)
            large.check_list(have)
        out['cold_again_ms'] = []
        for _ in range(3):
            if not large.end(signal.SIGTERM):
                fault(name, 'cold', 'did not end within 15 s of SIGTERM')
            out['cold_again_ms'].append(large.start() * 1e3)
        large.check()
    except UNEXPECTED as e:
        out['error'] = f'{type(e).__name__}: {e}'.replace(ROOT, '.')[:500]
        fault(name, 'grow', out['error'])
    finally:
        for r in (small, large, empty):
            if r:
                r.stop()
    return out


def grow_bars(g, a, sync_us):
    """The bars about a store that has grown."""
    s, n = f'{a.small:,}', f'{a.large:,}'
    why = 'stopped by an error, see below' if 'error' in g else g.get('short', '')
    bars = []

    def noted(text):
        return '; '.join(filter(None, [text, why]))
    v = g['rss_large_kb'] / g['rss_small_kb'] if g.get('rss_large_kb') and g.get('rss_small_kb') else None
    bars.append(Bar(f'resident memory, {n} tasks / {s}', v, 2, 1.3, False, note=noted(
        f'{g["rss_small_kb"] / 1024:.0f} -> {g["rss_large_kb"] / 1024:.0f} MiB' if v else '')))
    for key, title, bar, stretch, up, unit, scale, digits in (
            ('list', f'list (page of 50) p50, {n} tasks / {s}', 1.5, 1.1, False, 'ms', 1e3, 2),
            ('send', f'send throughput, {n} tasks / empty', 0.9, None, True, '/s', 1, 0)):
        d = g.get(key)
        ok = d and d['ratios']
        bars.append(Bar(title, statistics.median(d['ratios']) if ok else None, bar, stretch, up,
                        span=(min(d['ratios']), max(d['ratios'])) if ok else None,
                        note=noted(f'{d["first"] / scale:,.{digits}f} -> {d["last"] / scale:,.{digits}f} {unit}' if ok else '')))
    sl = g.get('slices') or []
    quiet = [x for x in sl if x['foreign_cores'] <= a.max_foreign] or sl
    v, text, note = None, '', ''
    if quiet:
        def used(x):
            return x['p99_us'] / (5 * x['p50_us'] + sync_us)
        w = max(quiet, key=used)
        v = used(w)
        text = f'{w["p99_us"] / 1000:.2f} ms of {(5 * w["p50_us"] + sync_us) / 1000:.2f} allowed'
        note = (f'worst of {len(quiet)} slices of up to 25,000; median p50 '
                f'{statistics.median(x["p50_us"] for x in quiet) / 1000:.2f}, p99 '
                f'{statistics.median(x["p99_us"] for x in quiet) / 1000:.2f} ms'
                + (f'; {len(sl) - len(quiet)} left out, other work on the machine' if len(quiet) < len(sl) else ''))
    bars.append(Bar('send p99 while growing / (5 x p50 + one sync)', v, 1, None, False, note=noted(note), text=text))
    return bars


def profiles():
    """The release profiles of Sabir and of the Rust servers here; link-time optimisation alone is worth a fifth."""
    try:
        import tomllib
        both = []
        for path in (os.path.join(ROOT, 'Cargo.toml'), os.path.join(HERE, 'rust', 'Cargo.toml')):
            with open(path, 'rb') as f:
                p = tomllib.load(f).get('profile', {}).get('release', {})
            both.append(', '.join(f'{k} = {p[k]}' for k in ('opt-level', 'lto', 'codegen-units', 'panic') if k in p))
    except (ImportError, OSError, ValueError):
        return 'build profiles: not compared'
    if both[0] == both[1]:
        return f'Sabir and the Rust servers are built alike: {both[0]}'
    return f'**unequal build profiles**: Sabir {both[0] or "default"}; the Rust servers {both[1] or "default"}'


def missing(names):
    return [n for n in names if not os.path.exists(PEERS[n].needs)]


def run_facts(command, rounds, secs, quick, pinned):
    """What a reader must know about a run, as the members of its document."""
    mach = machine()
    if mach['filesystem'] in ('tmpfs', 'ramfs', 'overlay'):
        print(f'bench: data lies on {mach["filesystem"]}, which may never reach a disk; set BENCH_TMP', file=sys.stderr)
    print(f'bench: {mach["cpus"]} x {mach["cpu"]}, one sync {mach["sync"]["p50_us"]:.0f} us', file=sys.stderr, flush=True)
    return dict(
        command=' '.join(command).replace(ROOT, '.'),
        date=datetime.datetime.now(datetime.timezone.utc).strftime('%Y-%m-%d %H:%M UTC'),
        commit=output(['git', '-C', ROOT, 'describe', '--always', '--dirty']), sabir=output([SABIR, '--version']),
        quick=quick, pinned=pinned, secs=secs, rounds=rounds, machine=mach)


def fact_lines(doc):
    """The same for the head of a report. Called after the run, since it measures the disk once more."""
    m = doc['machine']
    m['sync_after'] = sync_probe()
    return [f'- `{doc["command"]}`, {doc["date"]}, {doc["sabir"] or "sabir"}, commit {doc["commit"] or "?"}',
            f'- {m["cpus"]} x {m["cpu"]}, {m["memory_gib"]} GiB, Linux {m["kernel"]}, {m["filesystem"]}',
            f'- append + fdatasync: p50 {m["sync"]["p50_us"]:.0f} us, p99 {m["sync"]["p99_us"]:.0f} us before; '
            f'p50 {m["sync_after"]["p50_us"]:.0f} us, p99 {m["sync_after"]["p99_us"]:.0f} us after',
            f'- {"server on one core, generator on another" if doc["pinned"] else "not pinned"}; medians of '
            f'{doc["rounds"]} interleaved rounds of {doc["secs"]:g} s, range of the rounds in brackets; message ids: {IDS}']


def references_built(refs):
    """Whether the reference servers are there; builds them when they are not."""
    if missing(refs):
        print('bench: building the reference servers first', file=sys.stderr)
        return not subprocess.call([os.path.join(HERE, 'build'), 'floor']) and not missing(refs)
    return True


# What --against measures, which is what the bars are about: title, workload, durability, reference server, connections.
AGAINST = (
    ('send, durable', 'send', 'full', 'floor', [64, 256]),
    ('send, normal', 'send', 'normal', 'floor', [64]),
    ('get', 'get', 'full', 'store', [64]),
    ('stream, durable', 'stream', 'full', 'floor_chan', [64]),
    ('stream, normal', 'stream', 'normal', 'floor_chan', [64]),
)


def measure_together(mode, runs, conns, a):
    """Measures servers that run at once, one right after the other: for each number of connections the rows by name.

    All are measured again when other processes used too much during one of them; the least disturbed attempt counts.
    """
    ready, by_conns = {name: prepare(run, mode, a) for name, run in runs.items()}, {}

    def verify_all(c):
        for name, run in runs.items():
            like, text, idfile = ready[name]
            verify(run, mode, c, a, like, text, idfile)

    def measure_all(c):
        rows = {}
        for name, run in runs.items():
            _, text, idfile = ready[name]
            rows[name] = wrk(run, mode, c, a.secs, a.gen_pin, text=text, idfile=idfile, retries=0)
        return rows

    for c in conns:
        verify_all(c)
        best = measure_all(c)
        for _ in range(RETRIES):
            if disturbance(best) <= a.max_foreign:
                break
            best = min(best, measure_all(c), key=disturbance)
        for name, run in runs.items():
            same_size(run, mode, best[name], ready[name][0])
        verify_all(c)
        by_conns[c] = best
    return by_conns


def disturbance(rows):
    return max(row['foreign_cores'] for row in rows.values())


def rounds_together(mode, servers, conns, a):
    """Rounds in which all servers run at once, each in a fresh process, and are measured right after each other.

    For each number of connections a list of rounds, which hold rows by name. An error ends the rounds.
    """
    rounds = {c: [] for c in conns}
    for rnd in range(a.rounds):
        try:
            with contextlib.ExitStack() as stack:
                runs = {}
                for name in against.order(servers, rnd):
                    runs[name] = Running(name, servers[name], a.srv_pin)
                    stack.callback(runs[name].stop)
                for c, rows in measure_together(mode, runs, conns, a).items():
                    rounds[c].append(rows)
                    for name, row in rows.items():
                        say(mode, f'r{rnd} {name:12} c={c:<6}', row)
        except UNEXPECTED as e:
            fault(', '.join(servers), mode, f'{type(e).__name__}: {e}')
            break
    return rounds


def run_against(a):
    """Measures two builds of Sabir and the floor in one run."""
    builds = against.inspect_both(a.against, SABIR)
    if not references_built(sorted({ref for _, _, _, ref, _ in AGAINST})):
        return 2
    facts, comparisons = run_facts(['bench/run', *a.argv], a.rounds, a.secs, a.quick, bool(a.srv_pin)), []
    for title, work, durability, ref, conns in AGAINST:
        servers = {b.role: sabir(durability, binary=b.path) for b in builds} | {ref: PEERS[ref]}
        for c, rounds in rounds_together(work, servers, conns, a).items():
            rounds = against.select(rounds, before='before', new='new', floor=ref)
            comparisons.append(against.Comparison(f'{title}, {c} connections', rounds, ref))
    return against.finish('', a, facts, fact_lines(facts), builds, comparisons, FAULTS)


def run_bars(a):
    refs = ['floor', 'floor_chan', 'store']
    if not os.path.exists(SABIR):
        print('bench: no Sabir to measure. Build it (cargo build --release) or set SABIR_BIN.', file=sys.stderr)
        return 2
    if not references_built(refs):
        return 2
    wanted = [] if a.quick else ['agntcy_nd', 'tomtom', 'ra2a', 'node', 'python']
    if a.peers is not None:
        wanted = [p for p in a.peers.split(',') if p]
    absent = missing(wanted)
    peers = [p for p in wanted if p not in absent]
    for p in absent:
        print(f'bench: {p} is not built and is left out (bench/build)', file=sys.stderr)

    doc = run_facts(['bench/run', *a.argv], a.rounds, a.secs, a.quick, bool(a.srv_pin))
    doc |= dict(profiles=profiles(), left_out=absent, results={}, bars=[])
    mach, texts, res = doc['machine'], [], doc['results']

    def work(name, servers, base, **opts):
        b = argparse.Namespace(**{**vars(a), **opts})
        rows, errors = rounds_of(name, {s: PEERS[s] for s in servers}, b)
        res[name], text = table(name, servers, rows, errors, base)
        texts.append(text)
        print(text, flush=True)

    ours = ['sabir', 'sabir_normal']
    work('send', ours + ['floor'] + peers, 'floor', conns=[64, 256])
    work('translate', ['sabir', 'sabir_v03'], 'sabir', conns=[64])
    work('translate_normal', ['sabir_normal', 'sabir_normal_v03'], 'sabir_normal', conns=[64])
    work('get', ['sabir', 'store'] + peers, 'store', conns=[64])
    work('stream', ours + ['floor_chan'] + peers, 'floor_chan', conns=[64])
    work('idle', ['sabir', 'floor'] + peers, None, streams=[1000], rounds=1)
    work('cold', ['sabir', 'floor'] + peers, None, rounds=max(3, a.rounds))
    res['grow'] = {n: grow(n, PEERS[n], a) for n in ['sabir'] + [g for g in a.grow.split(',') if g]}
    for n, g in list(res['grow'].items())[1:]:
        texts.append(f'\n## grow: {n}\n\n' + '\n'.join([*BAR_HEAD] + [
            b.row() for b in grow_bars(g, a, mach['sync']['p50_us'])]))

    facts = fact_lines(doc)
    sync = max(mach['sync']['p50_us'], mach['sync_after']['p50_us'])
    busy = f'disk not quiet, one sync {sync / 1000:.1f} ms' if sync > 500 else ''
    bars = [
        ratio_bar('send, durable, 256 connections / floor', res, 'send', 'sabir', 256, 0.35, 0.6, busy),
        ratio_bar('send, durable, 64 connections / floor', res, 'send', 'sabir', 64, 0.30, 0.5, busy),
        ratio_bar('send, normal, 64 connections / floor', res, 'send', 'sabir_normal', 64, 0.45, 0.7),
        ratio_bar('send in 0.3 / send in 1.0, durable', res, 'translate', 'sabir_v03', 64, 0.9, 1.0, busy),
        ratio_bar('send in 0.3 / send in 1.0, normal', res, 'translate_normal', 'sabir_normal_v03', 64, 0.9, 1.0),
        ratio_bar('get, 64 connections / store', res, 'get', 'sabir', 64, 0.65, 0.85),
        ratio_bar('stream, durable, 64 connections / floor_chan', res, 'stream', 'sabir', 64, 0.30, 0.6, busy),
        ratio_bar('stream, normal, 64 connections / floor_chan', res, 'stream', 'sabir_normal', 64, 0.45, 0.8),
    ]

    def lowest(work, conns, key):
        v = {n: s[conns][key] for n, s in res[work]['servers'].items() if n not in REFERENCES and conns in s}
        return min(v.items(), key=lambda x: x[1]) if v else None
    best = lowest('idle', 1000, 'kb_per_stream')
    idle = res['idle']['servers'].get('sabir', {}).get(1000, {}).get('kb_per_stream')
    bars.append(Bar('memory per idle stream, 1,000 streams', idle, 18, 14, False, ' KB',
                    peer=f'{best[0]} {best[1]:.1f} KB' if best else '', note='' if idle else 'not measured, see errors'))
    g = res['grow']['sabir']
    bars += grow_bars(g, a, sync)
    best = lowest('cold', 0, 'cold_ms')
    new = res['cold']['servers'].get('sabir', {}).get(0, {}).get('cold_ms')
    again = statistics.median(g['cold_again_ms']) if g.get('cold_again_ms') else None
    note = 'not measured, see errors'
    if new and again:
        note = (f'new store {new:.1f}, store of {g["tasks_at_restart"]:,} tasks {again:.1f}, '
                f'after kill -9 {g["cold_killed_ms"]:.1f} ms')
    bars.append(Bar('cold start to first card, the slower of new and full store', max(new, again) if new and again else None,
                    20, 8, False, ' ms', note=note, peer=f'{best[0]} {best[1]:.1f} ms, no store' if best else ''))

    doc['bars'] = [b.doc() for b in bars]
    doc['faults'] = FAULTS
    mine = [f for f in FAULTS if f['server'] in OURS]
    met = sum(b.met(b.bar) is True for b in bars)
    reach = [b for b in bars if b.stretch is not None]
    md = ['# Bench: Sabir against its bars', '', *facts, f'- {doc["profiles"]}',
          f'- left out, not built: {", ".join(absent) or "nothing"}', '']
    if a.quick:
        md += ['Short form: it shows that answers are right and that nothing is far off. Its rounds and its '
               f'store of {a.large:,} tasks are too small to judge the bars by.', '']
    md += BAR_HEAD + [b.row() for b in bars]
    md += ['', f'{met} of {len(bars)} bars met, {sum(b.met(b.stretch) is True for b in reach)} of {len(reach)} stretch '
           f'goals. Errors of Sabir or of a reference server: {len(mine)}.']
    if FAULTS:
        md += ['', '## Errors', ''] + [f'- {f["server"]}, {f["work"]}: {clean(f["text"])}' for f in FAULTS]
    print('\n' + '\n'.join(md), flush=True)
    md += texts
    out = a.out or os.path.join(HERE, 'results', 'quick' if a.quick else 'latest')
    os.makedirs(os.path.dirname(os.path.abspath(out)), exist_ok=True)
    with open(out + '.json', 'w') as f:
        json.dump(doc, f, indent=1)
    with open(out + '.md', 'w') as f:
        f.write('\n'.join(md) + '\n')
    print(f'\nwritten: {os.path.relpath(out)}.md and .json', file=sys.stderr)
    if mine:
        return 1
    return 3 if a.gate and met < len(bars) else 0


def clean(text):
    return re.sub(r'\s+', ' ', text).replace('|', '/')


def output(argv):
    try:
        return subprocess.run(argv, capture_output=True, text=True, timeout=10).stdout.strip().split('\n')[0]
    except (OSError, subprocess.TimeoutExpired):
        return ''


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('--bars', action='store_true', help='run what the bars need and judge them (this is bench/run)')
    ap.add_argument('--quick', action='store_true', help='short form of --bars for CI: only the references, 20,000 tasks')
    ap.add_argument('--gate', action='store_true',
                    help='with --bars: exit with 3 when a bar is missed; with --against: with 1 above the limit')
    against.add_options(ap)
    ap.add_argument('--self-test', action='store_true', help='check the computations of --against, without any load')
    ap.add_argument('--grow', default='', help='with --bars: peers that are also grown, e.g. agntcy_nd,tomtom,ra2a')
    ap.add_argument('--out', default='', help='with --bars or --against: write OUT.md and OUT.json '
                    '(default bench/results/latest, quick, against or against-quick)')
    ap.add_argument('--server', action='append', default=[], metavar='NAME=CMD')
    ap.add_argument('--server-opt', action='append', default=[], metavar='NAME.KEY=VALUE',
                    help='path, stream_path, card or methods (v1|v03) of a --server')
    ap.add_argument('--peers', default=None, help='comma list of ' + ','.join(PEERS))
    ap.add_argument('--workload', default='send', help='comma list of ' + ','.join(WORK))
    ap.add_argument('--baseline', default='', help='server the ratios refer to (default: the first)')
    ap.add_argument('--conns', default='1,16,64,256')
    ap.add_argument('--secs', type=float, default=None, help='length of one measurement (3; bars 2; quick 1)')
    ap.add_argument('--warm', type=float, default=None, help='warm-up before it (1; quick 0)')
    ap.add_argument('--rounds', type=int, default=None, help=f'default 3; with --against {against.ROUNDS}; quick 1')
    ap.add_argument('--small', type=int, default=None, help='with --bars: tasks of the small store (10000; quick 2000)')
    ap.add_argument('--large', type=int, default=None, help='with --bars: tasks of the large store (500000; quick 20000)')
    ap.add_argument('--keep', type=int, default=100_000, help='tasks kept in the memory workload')
    ap.add_argument('--sizes', default='0,10000,100000,500000', help='store sizes of the growth workload')
    ap.add_argument('--probe', type=int, default=20000, help='requests per growth probe')
    ap.add_argument('--budget', type=float, default=None, help='seconds allowed for one fill (60; bars 300; quick 20)')
    ap.add_argument('--max-rss-gb', type=float, default=8, help='stop filling a server that grows past this')
    ap.add_argument('--streams', default='1000,5000', help='open streams of the idle workload')
    ap.add_argument('--uuid', action='store_true',
                    help='message ids that are UUIDs, as SDKs send them, so that retry keys are kept for every send')
    ap.add_argument('--unpinned', action='store_true', help='let server and generator float')
    ap.add_argument('--server-cpu', default='0')
    ap.add_argument('--gen-cpu', default='1')
    ap.add_argument('--max-foreign', type=float, default=0.25,
                    help='repeat a run when other processes used more than this many cores')
    ap.add_argument('--nice', type=int, default=None,
                    help='scheduling priority for server and generator on a shared machine (root)')
    ap.add_argument('--json', default='', help='write the result document here')
    a = ap.parse_args()
    if a.against and (a.peers is not None or a.server or a.grow):
        ap.error('--against measures two builds of Sabir and the floor, so it takes no --peers, --server or --grow')
    # The short form is what a test runs, so the computations are checked there as well.
    if a.self_test or a.quick:
        failed = selftest.run()
        if failed or a.self_test:
            return failed
    global NICE, IDS, RETRIES
    NICE, IDS = a.nice, 'uuid' if a.uuid else 'plain'
    a.bars |= a.quick
    a.argv = [x for x in sys.argv[1:] if x != '--bars']
    for key, plain, bars, both, quick in (
            ('secs', 3, 2, 3, 1), ('warm', 1, 1, 1, 0), ('rounds', 3, 3, against.ROUNDS, 1), ('budget', 60, 300, 60, 20),
            ('small', 10_000, 10_000, 10_000, 2_000), ('large', 500_000, 500_000, 500_000, 20_000)):
        if getattr(a, key) is None:
            setattr(a, key, quick if a.quick else both if a.against else bars if a.bars else plain)
    if a.quick:
        RETRIES = 0
    a.conns = [int(x) for x in a.conns.split(',')]
    a.sizes = [int(x) for x in a.sizes.split(',')]
    a.streams = [int(x) for x in a.streams.split(',')]
    for tool, package in ((WRK, 'wrk'), ('taskset', 'util-linux')):
        if not shutil.which(tool):
            print(f'bench: {tool} is not installed. On Debian or Ubuntu: apt-get install {package}', file=sys.stderr)
            return 2
    cpus = {str(c) for c in os.sched_getaffinity(0)}
    if not a.unpinned and not {a.server_cpu, a.gen_cpu} <= cpus:
        print(f'bench: no cores {a.server_cpu} and {a.gen_cpu} to pin to; running unpinned', file=sys.stderr)
        a.unpinned = True
    a.gen_pin = None if a.unpinned else a.gen_cpu
    a.srv_pin = None if a.unpinned else a.server_cpu
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # An interrupted run stops its servers as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if a.against:
        return run_against(a)
    if a.bars:
        return run_bars(a)

    servers = {}
    for s in a.server:
        name, _, cmd = s.partition('=')
        servers[name] = Server(cmd, cwd=os.getcwd())
    for o in a.server_opt:
        (name, key), val = o.split('=', 1)[0].split('.'), o.split('=', 1)[1]
        setattr(servers[name], key, {'v1': V1, 'v03': V03}[val] if key == 'methods' else val)
        if key == 'path' and servers[name].stream_path == '/':
            servers[name].stream_path = val
    for p in filter(None, (a.peers or '').split(',')):
        if p not in PEERS:
            ap.error(f'no such peer: {p}')
        servers[p] = PEERS[p]
    if not servers:
        ap.error('no server given')
    for work in a.workload.split(','):
        if work not in WORK:
            ap.error(f'no such workload: {work}')
    base = a.baseline or next(iter(servers))
    doc = dict(pinned=not a.unpinned, secs=a.secs, rounds=a.rounds, machine=machine(), results={})
    for work in a.workload.split(','):
        rows, errors = rounds_of(work, servers, a)
        doc['results'][work], text = table(work, list(servers), rows, errors, base)
        print(text, flush=True)
        doc['faults'] = FAULTS
        if a.json:
            with open(a.json, 'w') as f:
                json.dump(doc, f, indent=1)
    if not a.json:
        json.dump(doc, sys.stdout, indent=1)
        print()
    return 1 if any(f['server'] in OURS or f['server'] not in PEERS for f in FAULTS) else 0


if __name__ == '__main__':
    sys.exit(main())
