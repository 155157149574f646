/** The events of a streamed answer with the texts that the stream phase returns. One implementation for each dialect. */
import { isExactNumber } from '../../../json/exact-json.ts';
import { isObject } from '../../../json/is-object.ts';
import { type GuardedBody, isMedia, isSetting, TextCollector } from '../body/body-texts.ts';
import type { StreamChannel, TextKind } from '../guardrail-type.ts';
import type { PhaseStop, TextPhase, TextPhaseStep } from '../phases/guardrail-step.ts';
import { restoredTexts } from '../phases/stream-phase.ts';
import type { Placeholders } from '../placeholders.ts';

export type StreamEvent = Readonly<Record<string, unknown>>;

export interface GuardedEvents {
  /** The events for the client in place of this one. Empty when all of it is retained, or after the stop. */
  events(event: StreamEvent): readonly StreamEvent[];
  /** The provider's stream ended: the events with what is still retained. Empty for a stream that ended regularly. */
  finish(): readonly StreamEvent[];
  /** Set when a guardrail ended the stream. The caller ends the client's stream in its dialect. */
  readonly stop: PhaseStop | undefined;
}

/** The texts of one stream: what was written for each, and whether the stream ended. */
export class WrittenTexts {
  readonly #phase: TextPhase;
  readonly #keepsWhole: boolean;
  readonly #open = new Map<string, StreamChannel>();
  readonly #written = new Map<string, string>();
  readonly #tokens = new Map<string, UnchangedTokens>();
  #stop: PhaseStop | undefined;
  #separate = 0;

  /** @param keepsWhole whether `whole` is used */
  constructor(phase: TextPhase, keepsWhole: boolean) {
    this.#phase = phase;
    this.#keepsWhole = keepsWhole;
  }

  get stop(): PhaseStop | undefined {
    return this.#stop;
  }

  /** The texts that have begun and not ended. */
  get open(): readonly StreamChannel[] {
    return [...this.#open.values()];
  }

  /** @param entries the log probabilities of the text */
  push(channel: StreamChannel, text: string, entries: readonly unknown[] = []): string {
    if (!this.#open.has(channel.key)) this.#open.set(channel.key, channel);
    let tokens = this.#tokens.get(channel.key);
    if (tokens === undefined) {
      tokens = new UnchangedTokens();
      this.#tokens.set(channel.key, tokens);
    }
    tokens.given(text, entries);
    return this.#note(channel.key, this.#phase.push(channel, text));
  }

  end(channel: StreamChannel): string {
    if (!this.#open.delete(channel.key)) return '';
    return this.#note(channel.key, this.#phase.end(channel));
  }

  /** The log probabilities of what was written since the last call. */
  tokens({ key }: Pick<StreamChannel, 'key'>): readonly unknown[] {
    return this.#tokens.get(key)?.take() ?? [];
  }

  /**
   * Evaluates the strings of a value whose texts are not joined over events, each as a whole text. Settings, ids and
   * media stay as they are.
   */
  separate(value: unknown, kind: TextKind): unknown {
    if (typeof value === 'string') {
      if (value === '' || isMedia(value)) return value;
      const channel = { key: `separate ${this.#separate}`, kind, isJson: false };
      this.#separate += 1;
      const { text: begun, stop } = this.#phase.push(channel, value);
      this.#stop ??= stop;
      if (stop !== undefined) return begun;
      const last = this.#phase.end(channel);
      this.#stop ??= last.stop;
      return begun + last.text;
    }
    if (Array.isArray(value)) return value.map((one) => this.separate(one, kind));
    return isObject(value) && !isExactNumber(value) ? this.separateMembers(value, kind) : value;
  }

  /**
   * @param without members that stay as they are
   * @returns the same object when nothing changed
   */
  separateMembers(value: StreamEvent, kind: TextKind, without: readonly string[] = []): StreamEvent {
    let changed: Record<string, unknown> | undefined;
    for (const name in value) {
      const one = value[name];
      if (one === null || (typeof one !== 'string' && typeof one !== 'object')) continue;
      if (isSetting(name) || without.includes(name)) continue;
      const evaluated = this.separate(one, kind);
      if (evaluated === one) continue;
      changed ??= { ...value };
      changed[name] = evaluated;
    }
    return changed ?? value;
  }

  /** All that was written for a text; undefined when it never began. */
  whole(key: string): string | undefined {
    return this.#written.get(key);
  }

  #note(key: string, { text, stop }: TextPhaseStep): string {
    this.#stop ??= stop;
    this.#tokens.get(key)?.written(text);
    if (this.#keepsWhole) this.#written.set(key, (this.#written.get(key) ?? '') + text);
    return text;
  }
}

// The texts of a streamed answer that was collected, evaluated as a whole, and then written into its events.

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

/**
 * Log probabilities of a streamed text. They repeat it token by token, so they are written with the text that they
 * belong to, up to the first change of the text.
 */
interface HeldTokens {
  /** Where their text ends. */
  readonly end: number;
  readonly entries: readonly unknown[];
}

export class UnchangedTokens {
  /** The given text that was not written. */
  #awaited = '';
  #given = 0;
  #written = 0;
  #isChanged = false;
  #held: HeldTokens[] = [];
  #ready: unknown[] = [];

  /** @param entries the log probabilities of the text; of others nothing is kept */
  given(text: string, entries: readonly unknown[]): void {
    if (this.#isChanged) return;
    this.#awaited += text;
    this.#given += text.length;
    if (entries.length > 0) this.#held.push({ end: this.#given, entries });
  }

  written(text: string): void {
    if (this.#isChanged) return;
    if (!this.#awaited.startsWith(text)) {
      this.#isChanged = true;
      this.#awaited = '';
      this.#held = [];
      return;
    }
    this.#awaited = this.#awaited.slice(text.length);
    this.#written += text.length;
    while (this.#held[0] !== undefined && this.#held[0].end <= this.#written) {
      this.#ready.push(...this.#held[0].entries);
      this.#held.shift();
    }
  }

  /** Those of the text that was written since the last call. */
  take(): readonly unknown[] {
    if (this.#ready.length === 0) return [];
    const ready = this.#ready;
    this.#ready = [];
    return ready;
  }
}

/** The log probabilities when their tokens are exactly the text; none otherwise. */
export function matchingTokens(text: string, entries: unknown): readonly unknown[] {
  if (text === '' || !Array.isArray(entries) || entries.length === 0) return [];
  return entries.map(tokenIn).join('') === text || bytesIn(entries) === text ? entries : [];
}

function tokenIn(entry: unknown): string {
  return isObject(entry) && typeof entry['token'] === 'string' ? entry['token'] : '';
}

/** A character can consist of several tokens. */
function bytesIn(entries: readonly unknown[]): string {
  const bytes = entries.flatMap((entry) => (isObject(entry) && Array.isArray(entry['bytes']) ? entry['bytes'] : []));
  return Buffer.from(bytes).toString();
}
