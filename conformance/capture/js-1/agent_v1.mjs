// The agent behind the JavaScript 1.x server: plays the 0.3 events of `agent.mjs` as 1.0 messages.

import { AgentEvent } from '@a2a-js/sdk/server';
import { Message, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent } from '@a2a-js/sdk';

const state = (old) => `TASK_STATE_${old.toUpperCase().replaceAll('-', '_')}`;

function part({ kind, text, data, file, metadata }) {
  if (kind === 'text') return { text, metadata };
  if (kind === 'data') return { data, metadata };
  const content = file.bytes === undefined ? { url: file.uri } : { raw: file.bytes };
  return { ...content, filename: file.name, mediaType: file.mimeType, metadata };
}

const message = ({ kind, role, parts, ...rest }) => ({
  ...rest, role: role === 'user' ? 'ROLE_USER' : 'ROLE_AGENT', parts: parts.map(part),
});

const status = (old) => ({ ...old, state: state(old.state), message: old.message && message(old.message) });

/** An event of `agent.mjs` as the 1.x SDK takes it. `userMessage` stands in for the one in the history. */
export function event(old, userMessage) {
  const { kind, final, ...rest } = old;
  if (kind === 'task') {
    const task = Task.fromJSON({ ...rest, status: status(old.status), history: [] });
    return AgentEvent.task({ ...task, history: [userMessage] });
  }
  if (kind === 'status-update') {
    return AgentEvent.statusUpdate(TaskStatusUpdateEvent.fromJSON({ ...rest, status: status(old.status) }));
  }
  if (kind === 'artifact-update') {
    const artifact = { ...old.artifact, parts: old.artifact.parts.map(part) };
    return AgentEvent.artifactUpdate(TaskArtifactUpdateEvent.fromJSON({ ...rest, artifact }));
  }
  return AgentEvent.message(Message.fromJSON(message(old)));
}
