//! What the running program promises, asked from outside: the real binary, real sockets, real files.
//!
//! | Promise | Files |
//! |---|---|
//! | a bad request gets an error with the right numbers, and other callers are still served | `bad_json`, `bad_members`, `bad_ids`, `bad_clients`, `memory`, `costs`, `stored_bytes`, `answer_limits` |
//! | a store that cannot be used is named and left as it is | `store`, `damage` |
//! | one port, many agents | `protocols`, `v03`, `agents`, `card`, `origin_check`, `limits`, `timeouts`, `operator_endpoints`, `start`, `shutdown` |
//! | no operation without a credential where one is asked for, and no caller reaches what another has | `callers` |
//! | callers without a credential do not find each other's tasks | `anonymous_callers` |
//! | no third party can read the traffic, and no caller can pose as another | `tls`, `tls_files`, `tls_clients`, `proxies`, `web_origins`, `production`, `hosting_platforms` |
//! | each kind of agent works, and the dispatcher chooses between them | `agent_kinds` |
//! | a caller sees only the agents that it may call, and a dispatcher chooses among those | `dispatch`, `catalog`, `workspace` |
//! | agents are added and removed while the server runs | `agent_registry` |
//! | what a client says in headers decides media types, errors of streams, and cards | `negotiation` |
//! | every dialect, alone and together | `dialects`, `cards`, `losses`, `convert` |
//! | the demo server misbehaves as it was asked to, and no more | `demo` |
//! | a configuration is checked before a start, and a start says what is served | `configuration` |
//! | streamed text is one text, and agents know what was said before | `conversation` |
//! | a conversation at a terminal or in a pipe | `chat` |
//! | a shell completes what is typed | `completion` |
//! | commands and endpoints delegate to other agents, and no agent grants what it does not hold | `delegation` |
//! | an agent elsewhere that answers with a message is passed on as a message, and is sent only what it takes | `direct_replies` |
//! | load is measured and bounded, and goes to no agent of another operator | `bench` |
//! | a client that follows outlives the server it follows | `kill_stream` |
//! | other agents are judged fairly | `conformance`, `doctor`, `v01_reference_server`, `profiles` |
//! | what is typed is what is sent | `call` |
//! | the command line, whatever the agent does | `bad_agents`, `manual`, `commands`, `human_output`, `trust`, `xpr`, `mcp` |
//! | a cassette stands in for an agent and tells when it has changed | `cassettes` |
//! | a server is administered by commands, running or not, and over its API | `admin`, `admin_api` |
//! | an envelope of the booking network is done once, and nothing but what its key is for | `envelopes`, `envelope` |
//! | venues, bookings and subscriptions are administered, and the same network answers over A2A | `network`, `federation` |
//! | waiting tasks are found in one place, runaway tasks are stopped, and calls do not go in circles | `inbox`, `call_cycles` |
//! | everything can be copied, checked and put back | `backup` |
//! | tasks can be looked at with SQL | `sql` |
//! | old tasks are deleted, and no request waits for it | `retention` |
//! | a full disk does not stop readers | `full_disk` |
//! | commands end when their server ends, or at its next start | `orphaned_commands` |
//! | deliveries to webhooks are made, or shown to operators | `deliveries` |
//! | cards are signed, and their readers verify them | `signed_cards` |
//! | what agents can grant each other is known before anything runs | `lattice` |
//! | a task leaves for another server, once and whole | `handoff` |
//! | a remote agent works like a local one, and waiting for it survives a restart | `remote`, `remote_waits`, `agent_native_callbacks`, `upstream_credentials` |
//! | an agent that cannot be reached is reported, and a message that never left fails soon | `unreachable` |
//! | the life of a task | `turns`, `history`, `retry`, `cancel`, `list`, `push`, `stream`, `subscribe`, `resume` |
//!
//! Every test has a server of its own, or shares one where it neither counts nor lists anything. The helpers:
//! `test_server` starts and stops servers, `http_client` is a client on a bare socket, `rpc_client` is the only code that
//! knows the two JSON bindings, `certificate_authority` makes certificates, and `command_runner` runs commands to their
//! end. `stub_agent` gives scripted answers, `upstream` answers when the test says so, and `faulty_agent` breaks the
//! protocol.

#![expect(clippy::unwrap_used, reason = "in a test, a value that is not there is the failure")]

mod certificate_authority;
mod command_runner;
mod faulty_agent;
mod http_client;
mod rpc_client;
mod stub_agent;
mod test_server;
mod upstream;

mod admin;
mod admin_api;
mod agent_kinds;
mod agent_native_callbacks;
mod agent_registry;
mod agents;
mod anonymous_callers;
mod answer_limits;
mod backup;
mod bad_agents;
mod bad_clients;
mod bad_ids;
mod bad_json;
mod bad_members;
mod bench;
mod call;
mod call_cycles;
mod callers;
mod cancel;
mod card;
mod cards;
mod cassettes;
mod catalog;
mod chat;
mod commands;
mod completion;
mod configuration;
mod conformance;
mod conversation;
mod convert;
mod costs;
mod damage;
mod delegation;
mod deliveries;
mod demo;
mod dialects;
mod direct_replies;
mod dispatch;
mod doctor;
mod envelope;
mod envelopes;
mod federation;
mod full_disk;
mod handoff;
mod history;
mod hosting_platforms;
mod human_output;
mod inbox;
mod kill_stream;
mod lattice;
mod limits;
mod list;
mod login;
mod losses;
mod manual;
mod mcp;
mod memory;
mod negotiation;
mod network;
mod operator_endpoints;
mod origin_check;
mod orphaned_commands;
mod production;
mod profiles;
mod protocols;
mod proxies;
mod push;
mod remote;
mod remote_waits;
mod resume;
mod retention;
mod retry;
mod shutdown;
mod signed_cards;
mod sql;
mod start;
mod store;
mod stored_bytes;
mod stream;
mod subscribe;
mod timeouts;
mod tls;
mod tls_clients;
mod tls_files;
mod trust;
mod turns;
mod unreachable;
mod upstream_credentials;
mod v01_reference_server;
mod v03;
mod web_origins;
mod workspace;
mod xpr;
