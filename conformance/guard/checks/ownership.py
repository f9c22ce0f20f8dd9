"""Whose a task is, and that no call is served without a credential."""

import grpc
import tokens
from bindings import bearer
from registry import check, equal
from stage import GRPC, RPC, running

KEYS = '[auth]\naccept = ["api_key"]\n'
SECRET = 'test-secret-of-the-owners-of-tasks'


@check
def the_owner_of_a_native_task_is_an_address_in_an_organisation(world):
    with running(world, '', env={'A2A_SECRET': SECRET}) as server:
        task = RPC.send(server, bearer(tokens.shared(SECRET, 'ana@example.org', org_domain='example.org'))).task
        for subject, domain, wanted in (
            ('ana@example.org', 'example.org', True),
            ('ana@example.org', 'EXAMPLE.org', True),
            ('ANA@Example.org', 'example.org', True),
            ('ana@example.org', 'other.org', False),
            ('ana@example.org', None, False),
            ('ben@example.org', 'example.org', False),
        ):
            got = RPC.get(server, bearer(tokens.shared(SECRET, subject, org_domain=domain)), task).served
            equal(f'{subject} of {domain} reads it', got, wanted)


@check
def every_call_of_grpc_is_behind_the_door(world):
    """With the client of gRPC; the other bindings are in `crates/cli/tests/it/callers.rs`."""
    with running(world, KEYS) as server:
        stub = GRPC.stub(GRPC.channel(server, None))
        pb = GRPC.pb
        for name, request in (
            ('ListTasks', pb.ListTasksRequest()),
            ('GetExtendedAgentCard', pb.GetExtendedAgentCardRequest()),
            ('CancelTask', pb.CancelTaskRequest(id='x')),
            ('SubscribeToTask', pb.SubscribeToTaskRequest(id='x')),
            # A whole message: gRPC is decoded first, because the tenant in it says which agent is asked.
            ('SendMessage', GRPC.sending('hello')[1]),
            ('SendStreamingMessage', GRPC.sending('hello')[1]),
            ('ListTaskPushNotificationConfigs', pb.ListTaskPushNotificationConfigsRequest(task_id='x')),
        ):
            try:
                reply = getattr(stub, name)(request, metadata=[('a2a-version', '1.0')], timeout=10)
                list(reply) if hasattr(reply, '__next__') else None
                code = 0
            except grpc.RpcError as error:
                code = error.code().value[0]
            equal(name, code, 16)
