/** An answer that no provider gave, as the client gets it. */
import type { GivenAnswer } from '../relay.ts';

export function wholeOfGiven({ relay, whole }: GivenAnswer): Buffer {
  const bytes = Buffer.from(JSON.stringify(whole));
  return relay.whole(bytes, whole);
}

/** The whole stream. */
export function streamOfGiven({ relay, events }: GivenAnswer): Buffer {
  const data = [...events.map((event) => JSON.stringify(event)), '[DONE]'];
  const bytes = data.map((one) => relay.frame({ raw: Buffer.from(`data: ${one}\n\n`), data: one }).bytes);
  return Buffer.concat([...bytes, relay.finish().bytes].filter((one) => one !== undefined));
}
