/** The texts of a recorded stream as one body, for guardrails that read whole answers. */
import type { BodyTexts } from '../body/body-texts.ts';
import { TextCollector } from '../body/body-texts.ts';
import type { GuardedBody } from '../body/guarded-body.ts';
import { guardedEvents, type StreamDialect } from '../events/guarded-dialects.ts';
import type { StreamEvent } from '../events/guarded-events.ts';
import type { StreamChannel } from '../guarded-text.ts';
import type { EvaluationContext } from '../guardrail-type.ts';
import { mostCollectedBytes } from '../phases/phase-refusal.ts';
import { StreamPhase } from '../phases/stream-phase.ts';

interface CollectedText {
  readonly channel: StreamChannel;
  text: string;
}

/** The texts of one stream. */
export type CollectedStream = readonly CollectedText[];

export const collectedStream: GuardedBody = {
  texts(body): BodyTexts {
    const collector = new TextCollector();
    for (const [place, { channel, text }] of (body as CollectedStream).entries()) {
      const origin = { role: 'assistant', kind: channel.kind, message: 0 } as const;
      if (channel.isJson) collector.jsonText(text, [place, 'text'], origin);
      else collector.text(text, [place, 'text'], origin);
    }
    return collector;
  },
};

/** Undefined when there is more text than guardrails may collect. */
export async function collectStream(
  events: AsyncIterable<StreamEvent>,
  dialect: StreamDialect,
  context: EvaluationContext,
): Promise<CollectedStream | undefined> {
  const texts = new Map<string, CollectedText>();
  let bytes = 0;
  const step = {
    ...({ name: 'collector', type: 'collector', step: 0, failMode: 'closed', timeoutMs: 0, mutating: false } as const),
    guardrail: {
      openStream: () => ({
        push(channel: StreamChannel, text: string) {
          bytes += Buffer.byteLength(text);
          const known = texts.get(channel.key);
          if (known === undefined) texts.set(channel.key, { channel, text });
          else known.text += text;
          return { text };
        },
        end: () => ({ text: '' }),
      }),
    },
  };
  const guarded = guardedEvents(dialect, new StreamPhase([step], context), context.placeholders);
  for await (const event of events) {
    guarded.events(event);
    if (bytes > mostCollectedBytes) return undefined;
  }
  guarded.finish();
  return [...texts.values()];
}
