"""The gRPC face of a stub: the same functions, with messages turned into JSON terms and back."""

import concurrent.futures
import types

import grpc
from a2a.types import a2a_pb2
from google.protobuf import any_pb2, message_factory
from google.protobuf.json_format import MessageToDict, ParseDict
from google.rpc import error_details_pb2, status_pb2

import stub as stubs

SERVICE = 'lf.a2a.v1.A2AService'


def refuse(context, fault):
    name = stubs.ERRORS[fault.name][2]
    code = getattr(grpc.StatusCode, name)
    info = any_pb2.Any()
    info.Pack(error_details_pb2.ErrorInfo(reason=fault.reason, domain='a2a-protocol.org'))
    details = status_pb2.Status(code=code.value[0], message=fault.message, details=[info])
    context.set_trailing_metadata([('grpc-status-details-bin', details.SerializeToString())])
    context.abort(code, fault.message)


def handler(stub, method):
    asked = message_factory.GetMessageClass(method.input_type)
    answered = message_factory.GetMessageClass(method.output_type)

    def play(request, context):
        headers = {key: value for key, value in context.invocation_metadata()}
        headers['-peer'] = context.auth_context().get('x509_common_name', [b''])[0].decode()
        return stub.answer(method.name, 'GRPC', MessageToDict(request), headers)

    def encode(value):
        return ParseDict(value, answered(), ignore_unknown_fields=True)

    def unary(request, context):
        try:
            result = play(request, context)
        except stubs.Fault as fault:
            refuse(context, fault)
        except stubs.Http as answer:
            context.abort(getattr(grpc.StatusCode, answer.grpc), 'refused on purpose')
        if result is stubs.CUT:
            context.abort(grpc.StatusCode.UNAVAILABLE, 'connection lost')
        return encode(result)

    def stream(request, context):
        try:
            for event in play(request, context):
                if event is stubs.CUT:
                    context.abort(grpc.StatusCode.UNAVAILABLE, 'connection lost')
                yield encode(event)
        except stubs.Fault as fault:
            refuse(context, fault)
        except stubs.Http as answer:
            context.abort(getattr(grpc.StatusCode, answer.grpc), 'refused on purpose')

    make = grpc.unary_stream_rpc_method_handler if method.name in stubs.STREAMS else grpc.unary_unary_rpc_method_handler
    return make(
        stream if method.name in stubs.STREAMS else unary,
        request_deserializer=asked.FromString,
        response_serializer=lambda value: value.SerializeToString(),
    )


def serve(stub):
    methods = a2a_pb2.DESCRIPTOR.services_by_name['A2AService'].methods
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(8), options=[('grpc.so_reuseport', 0)])
    handlers = {method.name: handler(stub, method) for method in methods}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    if stub.tls:
        port = server.add_secure_port('127.0.0.1:0', stub.tls.grpc())
    else:
        port = server.add_insecure_port('127.0.0.1:0')
    server.start()
    return types.SimpleNamespace(
        port=port, url=f'{"https" if stub.tls else "http"}://127.0.0.1:{port}', stop=lambda: server.stop(0)
    )
