/** The texts of a streamed answer that was collected, evaluated as a whole, and then written into its events. */
import { TextCollector } from '../body/body-texts.ts';
import type { GuardedBody } from '../body/guarded-body.ts';
import type { StreamChannel } from '../guarded-text.ts';
import { restoredTexts } from '../phases/stream-phase.ts';
import type { TextPhase, TextPhaseStep } from '../phases/text-phase.ts';
import type { Placeholders } from '../placeholders.ts';

/** First pass over the events: changes nothing and keeps the texts. */
export class CollectedTexts implements TextPhase {
  readonly #channels: StreamChannel[] = [];
  readonly #indexes = new Map<string, number>();
  readonly #texts: string[] = [];

  push(channel: StreamChannel, text: string): TextPhaseStep {
    let index = this.#indexes.get(channel.key);
    if (index === undefined) {
      index = this.#texts.push('') - 1;
      this.#indexes.set(channel.key, index);
      this.#channels.push(channel);
    }
    this.#texts[index] += text;
    return { text };
  }

  end(): TextPhaseStep {
    return { text: '' };
  }

  /** The texts, as the body of a phase. */
  get body(): readonly string[] {
    return this.#texts;
  }

  /** How the texts of `body` are found. */
  get of(): GuardedBody {
    const channels = this.#channels;
    return {
      texts(body) {
        const into = new TextCollector();
        for (const [index, { kind, isJson }] of channels.entries()) {
          const text: unknown = Array.isArray(body) ? body[index] : undefined;
          const origin = { role: 'assistant', kind, message: index } as const;
          if (isJson) into.jsonText(text, [index], origin);
          else into.text(text, [index], origin);
        }
        return into;
      },
    };
  }

  /**
   * Second pass over the events: the texts of the evaluated body, with their values restored. A text keeps the pieces of
   * the stream up to its first change; all of its rest follows in one piece.
   */
  written(body: unknown, placeholders: Placeholders): TextPhase {
    const restored = restoredTexts(placeholders);
    const rests = new Map<string, string>();
    const textOf = (channel: StreamChannel): string => {
      const index = this.#indexes.get(channel.key);
      const text: unknown = index === undefined || !Array.isArray(body) ? '' : body[index];
      if (typeof text !== 'string') return '';
      return restored === undefined ? text : restored.push(channel, text) + restored.end(channel);
    };
    const take = (channel: StreamChannel, given: string | undefined): TextPhaseStep => {
      const rest = rests.get(channel.key) ?? textOf(channel);
      const text = given !== undefined && rest.startsWith(given) ? given : rest;
      rests.set(channel.key, rest.slice(text.length));
      return { text };
    };
    return { push: take, end: (channel) => take(channel, undefined) };
  }
}
