/** An event stream outside an exchange: written at the client's pace, with heartbeats while no events arrive. */
import { Heartbeat } from '../commands/exchange/delivery/heartbeat.ts';
import type { Client } from '../commands/model-request/client.ts';
import { refusals } from '../commands/refusal.ts';
import type { EventStream } from '../commands/response-lifecycle/lifecycle.ts';

/** Resolves at the end of the stream. A stream that fails or is ended early ends with an error for the client. */
export async function sendEvents(stream: EventStream, headers: Record<string, string>, client: Client): Promise<void> {
  client.begin(200, { ...headers, 'content-type': 'text/event-stream; charset=utf-8' });
  const heartbeat = new Heartbeat((comment) => client.write(comment));
  const write = (bytes: Buffer) => {
    heartbeat.sent();
    return client.write(bytes);
  };
  try {
    if ('pieces' in stream) await stream.pieces((bytes) => write(bytes));
    else for await (const bytes of stream) await write(bytes);
    if (client.ended.aborted) client.refuse(refusals.stopping(), {});
    else client.end();
  } catch (error) {
    client.refuse(refusals.internal(error), {});
  } finally {
    heartbeat.stop();
  }
}
