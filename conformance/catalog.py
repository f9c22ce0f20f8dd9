"""Every package of others that the tests install, by the folder that has its pins. A new one is added here."""

from go_package import GoPackage
from maven_package import MavenPackage
from node_package import NodePackage
from python_package import PythonPackage

# What drives our server, and what the runs themselves are written with: `PUSH` also those of the guard, the hub and the
# booking network.
PYTHON = PythonPackage('python', 'a2a-sdk')
PYTHON_0_3 = PythonPackage('python-0.3', 'a2a-sdk')
JS = NodePackage('js', '@a2a-js/sdk')
JS_0_3 = NodePackage('js-0.3', '@a2a-js/sdk')
XPR = NodePackage('xpr', '@xpr-agents/sdk')
AGENT_NATIVE = NodePackage('agent-native', '@agent-native/core')
MCP = PythonPackage('mcp', 'mcp')
MODEL = PythonPackage('model', 'openai')
PUSH = PythonPackage('push/python', 'a2a-sdk')
PUSH_JS = NodePackage('push/js', 'standardwebhooks')
PROVIDER = NodePackage('servers/provider', 'oidc-provider')

# Clients and servers whose words `capture` keeps, by the name that fixtures give them.
CAPTURED = {
    'py-0.3.26': PythonPackage('capture/py-0.3', 'a2a-sdk'),
    'js-0.3.14': NodePackage('capture/js-0.3', '@a2a-js/sdk'),
    'py-1.3.0': PythonPackage('capture/py-1', 'a2a-sdk'),
    'js-1.3.0': NodePackage('capture/js-1', '@a2a-js/sdk'),
    'py-0.2.16': PythonPackage('capture/py-0.2', 'a2a-sdk'),
    'py-0.2.5': PythonPackage('capture/py-0.2.5', 'a2a-sdk'),
    'js-0.2.5': NodePackage('capture/js-0.2', '@a2a-js/sdk'),
    'pya2a-0.1.1': PythonPackage('capture/pya2a', 'pya2a'),
    'a2a-js-0.2.0': NodePackage('capture/a2a-js', 'a2a-js'),
    'fasta2a-0.2.3': PythonPackage('capture/fasta2a', 'fasta2a'),
    'xpr-0.2.6': NodePackage('capture/xpr', '@xpr-agents/sdk'),
    'agent-native-0.133.3': NodePackage('capture/agent-native', '@agent-native/core'),
}
# The command line is tested with an agent on the same SDK, so its run has the same pins.
CLI = CAPTURED['py-1.3.0']

# Those of them that `servers` starts. The others are for `capture/run` alone, which `./test` does not call.
SERVED = ('py-1.3.0', 'py-0.3.26', 'js-1.3.0', 'js-0.3.14', 'pya2a-0.1.1', 'xpr-0.2.6', 'agent-native-0.133.3')

# SDKs that have to be compiled. Their programs are clients of our server and servers for our client; `./test --full` alone
# builds them.
GO_PROGRAMS = ('client-2', 'client-0.3', 'server-2', 'server-0.3')
GO = GoPackage('go', 'github.com/a2aproject/a2a-go/v2', GO_PROGRAMS)
GO_0_3 = GoPackage('go', 'github.com/a2aproject/a2a-go', GO_PROGRAMS)
JAVA_CLIENT = MavenPackage(
    'java/client', 'io.github.a2asdk', ('java', '-cp', '{home}/target/client.jar:{home}/target/libraries/*', 'Main')
)
JAVA_SERVER = MavenPackage('java/server', 'io.github.a2asdk', ('java', '-jar', '{home}/target/quarkus-app/quarkus-run.jar'))
COMPILED = (GO, JAVA_CLIENT, JAVA_SERVER)

TESTED = (
    *(PYTHON, PYTHON_0_3, JS, JS_0_3, XPR, AGENT_NATIVE, MCP, MODEL, PUSH, PUSH_JS, PROVIDER),
    *(CAPTURED[name] for name in SERVED),
)
ALL = {package.folder: package for package in (*TESTED, *CAPTURED.values(), *COMPILED)}
