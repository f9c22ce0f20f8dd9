"""The live agents of a run: started when first needed, shared by all checks, ended with the run."""

import json
import os
import pathlib
import subprocess
import sys
import threading
import urllib.request

import startup
from harness import NotMeasured

HERE = pathlib.Path(__file__).resolve().parent
SERVERS = HERE.parent / 'servers'
# A server of others, the provider beside it, and packages where only a part was installed before.
START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 5


class Agent:
    def __init__(self, name, command, scratch):
        self.name, self.command = name, command
        self.log, self.out = scratch / f'{name}.log', scratch / f'{name}.out'
        folder = scratch / f'agent-{name}'
        folder.mkdir(parents=True)
        keep = {key: os.environ[key] for key in ('PATH', 'TMPDIR', 'CONFORMANCE_CACHE') if key in os.environ}
        environment = {**keep, 'HOME': str(folder), 'NO_PROXY': '127.0.0.1,localhost', 'LANG': 'C.UTF-8'}
        with open(self.log, 'wb') as log, open(self.out, 'wb') as out:
            self.process = subprocess.Popen(
                command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=log
            )
        ready = startup.line_in(self.out, rb'(?m)(^{.*$|[Ll]istening(?: on|:) http://[^\s/]+)')
        try:
            said = startup.wait(self.process, command, ready, self.out, self.log, seconds=START_SECONDS_MAX)
        except startup.NotServing as why:
            self.stop()
            raise NotMeasured(str(why)) from None
        # One of `conformance/servers` says more about itself.
        self.about = json.loads(said) if said.startswith('{') else {}
        self.url = self.about['url'] if self.about else said.split()[-1]

    def alive(self):
        return self.process.poll() is None

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    # --- What checks ask the agent behind the back of the binary ---------------------------------------------------

    def fetch(self, path='/.well-known/agent-card.json'):
        request = urllib.request.Request(self.url + path, headers={'A2A-Version': '1.0'})
        with OPENER.open(request, timeout=10) as answer:
            return json.loads(answer.read())

    def rpc(self, method, params):
        """A JSON-RPC call of ours, for preparing what a check is about."""
        card = self.fetch()
        url = next(i['url'] for i in card['supportedInterfaces'] if i['protocolBinding'] == 'JSONRPC')
        body = json.dumps({'jsonrpc': '2.0', 'id': 1, 'method': method, 'params': params}).encode()
        headers = {'A2A-Version': '1.0', 'Content-Type': 'application/json'}
        with OPENER.open(urllib.request.Request(url, body, headers), timeout=10) as answer:
            value = json.loads(answer.read())
        if 'error' in value:
            raise AssertionError(f'{self.name} refused {method}: {value["error"]}')
        return value['result']


OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class World:
    """What all checks of a run share."""

    def __init__(self, sabir, scratch, mutant=None, root=HERE.parent.parent):
        self.sabir, self.scratch, self.mutant, self.root = str(sabir), scratch, mutant, root
        self.agents, self.lock = {}, threading.Lock()

    def command(self, name):
        return {
            'serve': [
                self.sabir,
                'serve',
                '--config',
                HERE / 'sabir.toml',
                '--listen',
                '127.0.0.1:0',
                '--data',
                self.scratch / 'serve-data',
            ],
            'demo': [self.sabir, 'demo-server', '--port', '0'],
            'python': [sys.executable, '-B', HERE / 'agent.py'],
        }.get(name) or [SERVERS / 'start', name]

    def agent(self, name):
        with self.lock:
            found = self.agents.get(name)
            if found is None:
                try:
                    found = Agent(name, self.command(name), self.scratch)
                except (NotMeasured, OSError) as why:
                    found = NotMeasured(f'{name}: {why}')
                self.agents[name] = found
        if isinstance(found, NotMeasured):
            raise NotMeasured(str(found))
        if not found.alive():
            raise AssertionError(startup.report(found.process, found.command, 'ended during the run', found.log))
        return found

    def close(self):
        for found in self.agents.values():
            if isinstance(found, Agent):
                found.stop()
