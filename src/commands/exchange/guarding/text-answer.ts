/** An answer that a guardrail gave, as the client gets it. */
import type { TextAnswer } from './guarded-endpoint.ts';

export function wholeOfText({ relay, whole }: TextAnswer): Buffer {
  const bytes = Buffer.from(JSON.stringify(whole));
  return relay.whole(bytes, whole);
}

/** The whole stream. */
export function streamOfText({ relay, events }: TextAnswer): Buffer {
  const data = [...events.map((event) => JSON.stringify(event)), '[DONE]'];
  const bytes = data.map((one) => relay.frame({ raw: Buffer.from(`data: ${one}\n\n`), data: one }).bytes);
  return Buffer.concat([...bytes, relay.finish().bytes].filter((one) => one !== undefined));
}
