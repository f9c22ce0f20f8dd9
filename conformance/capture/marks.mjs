// Tells the recorder what a Node script is about to do.

async function post(path, value) {
  const answer = await fetch(`http://127.0.0.1:${process.env.CAPTURE_CONTROL}${path}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(value),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(text);
  return text;
}

/**
 * Whatever passes while `act` runs is written under the names in `mark`: see `recorder.py`. With `may_fail` in the mark
 * a refusal is written down like any other answer.
 */
export async function record(dialect, mark, act) {
  await post('/begin', { dialect, ...mark });
  const result = await (mark.may_fail ? act().catch((error) => console.log(`refused: ${error.message}`)) : act());
  console.log(await post('/end', {}));
  return result;
}

/** Reads a stream to its end. */
export async function drain(stream) {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
}
