/** An event stream outside an exchange: written at the client's pace, with heartbeats while no events arrive. */

import { HEARTBEAT, HEARTBEAT_MS } from '../commands/exchange/delivery/relay-stream.ts';
import type { Client } from '../commands/model-request/client.ts';
import { refusals } from '../commands/refusal.ts';
import type { EventStream } from '../commands/response-lifecycle/lifecycle.ts';

/** Resolves at the end of the stream. A stream that fails or is ended early ends with an error for the client. */
export async function sendEvents(stream: EventStream, headers: Record<string, string>, client: Client): Promise<void> {
  client.begin(200, { ...headers, 'content-type': 'text/event-stream; charset=utf-8' });
  let quiet = true;
  const write = (bytes: Buffer) => {
    quiet = false;
    return client.write(bytes);
  };
  const heartbeat = setInterval(() => {
    if (quiet) client.write(HEARTBEAT);
    quiet = true;
  }, HEARTBEAT_MS);
  try {
    if ('pieces' in stream) await stream.pieces((bytes) => write(bytes));
    else for await (const bytes of stream) await write(bytes);
    if (client.ended.aborted) client.refuse(refusals.stopping(), {});
    else client.end();
  } catch (error) {
    client.refuse(refusals.internal(error), {});
  } finally {
    clearInterval(heartbeat);
  }
}
